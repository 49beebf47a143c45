"""From verdicts to actions: a ladder for each finding, climbed while it lasts and left again when it is gone. Pure.

`decide` gets the state, the verdicts, the conditions and the clock, and returns the next state and what to do. Each
finding (a detector and its cause) has a course (`courses`): the step of its ladder that it is at, and since when. How
tight and how much load is shed is the most that any course asks for; what memory asks for at once counts with it.

All restarts pass through `_restart`: never two within the cool-down, whoever ordered the first, never one while the
circuit is open, and after several within a day a person is asked instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .courses import CURED, Course, better, worse
from .decisions import (
    Action,
    CloseCircuit,
    Conditions,
    Decision,
    EmptyPrefixCache,
    Observe,
    OpenCircuit,
    PlannedRestart,
    Reclaim,
    RestartNow,
    Shed,
    Tighten,
)
from .remedies import EXPLAINS_SLOWNESS, HOUR_S, MINUTE_S
from .verdicts import Cause, DetectorName, Level, Number, Verdict

COOL_DOWN_S = 30 * MINUTE_S
RESTARTS_A_DAY = 4
DAY_S = 24 * HOUR_S
QUIET_S = MINUTE_S
CIRCUIT_S = 2 * HOUR_S

Finding = tuple[DetectorName, Cause | None]


@dataclass(frozen=True)
class State:
    """What decisions remember."""

    courses: dict[Finding, Course] = field(default_factory=dict)
    tighten: int = 0
    shed: int = 0
    restarts: tuple[float, ...] = ()
    """When restarts were decided within the last day, oldest first."""
    circuit_opened_at: float | None = None


def decide(
    state: State, verdicts: Iterable[Verdict], conditions: Conditions, now: float
) -> tuple[State, list[Decision]]:
    """The next state, and what to do at `now`; call it with every sample's verdicts."""
    known = list(verdicts)
    firing = {(verdict.detector, verdict.cause): verdict for verdict in known if verdict.level is Level.FIRING}
    slow_anyway = any(verdict.level is not Level.OK for verdict in known if verdict.detector in EXPLAINS_SLOWNESS)
    courses = {finding: better(course, now) for finding, course in state.courses.items() if finding not in firing}
    for finding, verdict in firing.items():
        explained = slow_anyway and finding[0] is DetectorName.SLOWDOWN
        courses[finding] = worse(state.courses.get(finding), verdict, explained, now)
    present = {finding: course for finding, course in courses.items() if course is not None}
    state = replace(state, courses=present, restarts=tuple(at for at in state.restarts if now - at < DAY_S))
    decisions: list[Decision] = []
    for step in (_levels, _once, _circuit, _restart):
        state, decided = step(state, firing, conditions, now)
        decisions += decided
    return state, decisions


Outcome = tuple[State, list[Decision]]


def _levels(state: State, firing: dict[Finding, Verdict], conditions: Conditions, now: float) -> Outcome:
    """How tight, and how much is shed: the most that any course asks for."""
    decisions = []
    for kind, present in ((Tighten, state.tighten), (Shed, state.shed)):
        asked = {finding: _asked(kind, course, firing.get(finding)) for finding, course in state.courses.items()}
        wanted = max(asked.values(), default=0)
        if wanted == present:
            continue
        if wanted > present:
            finding = max(asked, key=lambda each: asked[each])
            change = f"from level {present} to {wanted}"
        elif wanted > 0:
            finding = max(asked, key=lambda each: asked[each])
            change = f"back from level {present} to {wanted}"
        else:
            finding = max(_asked_for(kind, state), key=lambda each: state.courses[each].since)
            change = f"back from level {present} to 0, because this is over"
        found = state.courses[finding].sentence
        decisions.append(Decision(now, kind(wanted), f"{_name(kind(wanted))} {change}: {found}", finding[0], found))
        state = replace(state, tighten=wanted) if kind is Tighten else replace(state, shed=wanted)
    return state, decisions


def _asked(kind: type[Tighten] | type[Shed], course: Course, verdict: Verdict | None) -> int:
    """By the course, and by the verdict itself where it leaves no time to climb."""
    at_once = verdict.numbers.get(Number.SHED_LEVEL, 0.0) if verdict is not None and kind is Shed else 0.0
    return max(course.level(kind), int(at_once))


def _asked_for(kind: type[Tighten] | type[Shed], state: State) -> list[Finding]:
    """The findings whose ladders have such a step."""
    return [
        finding
        for finding, course in state.courses.items()
        if any(isinstance(step.action, kind) for step in course.remedy)
    ]


def _once(state: State, firing: dict[Finding, Verdict], conditions: Conditions, now: float) -> Outcome:
    """What is done once when its step is entered."""
    courses, decisions = dict(state.courses), []
    for finding in firing:
        course = courses[finding]
        if course.done or isinstance(course.current.action, PlannedRestart | RestartNow | OpenCircuit):
            continue
        courses[finding] = replace(course, done=True)
        action = course.current.action
        if isinstance(action, Observe | Reclaim | EmptyPrefixCache):
            sentence = f"{_name(action)}: {course.sentence}"
            decisions.append(Decision(now, action, sentence, finding[0], course.sentence))
    return replace(state, courses=courses), decisions


def _circuit(state: State, firing: dict[Finding, Verdict], conditions: Conditions, now: float) -> Outcome:
    """Open it for findings that restarts do not help; close it some time later, when they are over."""
    holding = [finding for finding, course in state.courses.items() if _holds_circuit(course)]
    if state.circuit_opened_at is None:
        opening = [finding for finding in holding if finding in firing]
        if not opening:
            return state, []
        return _open_circuit(state, opening[0], state.courses[opening[0]].sentence, now)
    if holding or len(state.restarts) >= RESTARTS_A_DAY or now - state.circuit_opened_at < CIRCUIT_S:
        return state, []
    minutes = (now - state.circuit_opened_at) / MINUTE_S
    sentence = f"the circuit closes after {minutes:.0f} minutes: what opened it is over"
    closed = Decision(now, CloseCircuit(), sentence, DetectorName.CRASHES, sentence)
    return replace(state, circuit_opened_at=None), [closed]


def _holds_circuit(course: Course) -> bool:
    return course.step != CURED and isinstance(course.current.action, OpenCircuit)


def _open_circuit(state: State, finding: Finding, why: str, now: float) -> Outcome:
    sentence = f"the circuit opens and no restart is ordered any more: {why}"
    return replace(state, circuit_opened_at=now), [Decision(now, OpenCircuit(), sentence, finding[0], why)]


def _restart(state: State, firing: dict[Finding, Verdict], conditions: Conditions, now: float) -> Outcome:
    """At most one restart, for the most urgent of those that want one."""
    recent = state.restarts
    cooling = bool(recent) and now - recent[-1] < COOL_DOWN_S
    if cooling or state.circuit_opened_at is not None:
        return state, []
    if conditions.engine_up_s is None or conditions.engine_up_s < COOL_DOWN_S:
        return state, []
    wanting = [finding for finding in firing if _wants_restart(state.courses[finding], conditions)]
    if not wanting:
        return state, []
    finding = min(wanting, key=lambda each: _left_s(firing[each]))
    course = state.courses[finding]
    if len(recent) >= RESTARTS_A_DAY:
        why = f"{len(recent)} restarts within a day have not helped, and still {course.sentence}"
        return _open_circuit(state, finding, why, now)
    action = course.current.action
    quiet = f"no request for {conditions.quiet_s:.0f} s"
    when = quiet if isinstance(action, PlannedRestart) else "it cannot wait for a quiet minute"
    decision = Decision(now, action, f"{_name(action)}: {course.sentence}; {when}", finding[0], course.sentence)
    courses = {**state.courses, finding: replace(course, done=True, since=now)}
    return replace(state, courses=courses, restarts=(*recent, now)), [decision]


def _wants_restart(course: Course, conditions: Conditions) -> bool:
    if course.done or course.step == CURED:
        return False
    if isinstance(course.current.action, PlannedRestart):
        return conditions.quiet_s >= QUIET_S
    return isinstance(course.current.action, RestartNow)


def _left_s(verdict: Verdict) -> float:
    return verdict.numbers.get(Number.EXHAUSTION_SECONDS, float("inf"))


def _name(action: Action) -> str:
    """What is done, as the start of a sentence."""
    if isinstance(action, Reclaim):
        return "give memory back: the pool" if action.level == 1 else "give memory back: the pool and cached prefixes"
    if isinstance(action, PlannedRestart):
        return f"restart the {action.child} in a quiet minute"
    if isinstance(action, RestartNow):
        return f"restart the {action.child} now"
    return _NAMES.get(type(action), "watch")


_NAMES: dict[type[Action], str] = {
    Tighten: "work in smaller pieces,",
    Shed: "shed load,",
    EmptyPrefixCache: "empty the prefix cache",
}

"""From verdicts to actions: a ladder for each finding, climbed while it lasts and left again when it is gone. Pure.

`decide` gets the state, the verdicts, the conditions and the clock, and returns the next state and what to do. Each
finding (a detector and its cause) has a course: the step it is at and since when. A course climbs when its step has not
helped for the step's dwell, and steps down when the finding has been away for a while; that while doubles when it comes
back soon, so that nothing swings. How tight and how much load is shed is the most that any course asks for.

All restarts pass through `_restart`: never two within the cool-down, whoever ordered the first, never one while the
circuit is open, and after several within a day a person is asked instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

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
from .remedies import EXPLAINS_SLOWNESS, HOUR_S, MINUTE_S, Remedy, Step, remedy
from .verdicts import Cause, DetectorName, Level, Number, Verdict

COOL_DOWN_S = 30 * MINUTE_S
RESTARTS_A_DAY = 4
DAY_S = 24 * HOUR_S
QUIET_S = MINUTE_S
URGENT_S = 45 * MINUTE_S
"""With less time than this until something runs out, nobody waits for a quiet minute."""
RECOVER_S = 5 * MINUTE_S
RECOVER_MOST_S = HOUR_S
STEP_DOWN_S = MINUTE_S
CIRCUIT_S = 2 * HOUR_S
CURED = -1

Finding = tuple[DetectorName, Cause | None]


@dataclass(frozen=True)
class Course:
    """The treatment of one finding. `step` is the index of the present step, `CURED` after the last was left."""

    remedy: Remedy
    step: int
    since: float
    """When the present step was entered, or left to the next lower one."""
    sentence: str
    """The finding's, when it last fired."""
    done: bool = False
    """The present step was carried out; what waits for its moment is not."""
    well_since: float | None = None
    recover_s: float = RECOVER_S

    @property
    def entered(self) -> tuple[Step, ...]:
        return self.remedy[: self.step + 1]

    @property
    def current(self) -> Step:
        return self.remedy[self.step]

    def level(self, kind: type[Tighten] | type[Shed]) -> int:
        return max((step.action.level for step in self.entered if isinstance(step.action, kind)), default=0)


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
    lingering = {verdict.detector for verdict in known if verdict.level is not Level.OK}
    courses: dict[Finding, Course] = {}
    for finding in [*state.courses, *(finding for finding in firing if finding not in state.courses)]:
        course = _next_course(finding, state.courses.get(finding), firing.get(finding), lingering, now)
        if course is not None:
            courses[finding] = course
    state = replace(state, courses=courses, restarts=tuple(at for at in state.restarts if now - at < DAY_S))
    decisions: list[Decision] = []
    for step in (_levels, _once, _circuit, _restart):
        state, decided = step(state, firing, conditions, now)
        decisions += decided
    return state, decisions


def _next_course(
    finding: Finding, course: Course | None, verdict: Verdict | None, lingering: set[DetectorName], now: float
) -> Course | None:
    """The course a moment later; None when it is over and forgotten."""
    if verdict is not None:
        return _worse(course, verdict, lingering, now)
    if course is None:
        return None
    if finding[0] in lingering:
        return replace(course, well_since=None)
    return _better(course, now)


def _worse(course: Course | None, verdict: Verdict, lingering: set[DetectorName], now: float) -> Course:
    if course is None:
        return Course(remedy(verdict), 0, now, verdict.sentence)
    if course.step == CURED:
        recover_s = min(2 * course.recover_s, RECOVER_MOST_S)
        return Course(remedy(verdict), 0, now, verdict.sentence, recover_s=recover_s)
    course = replace(course, sentence=verdict.sentence, well_since=None)
    if _is_explained(verdict, lingering):
        return replace(course, since=now)
    if not _is_urgent(verdict) and now - course.since < course.current.dwell_s:
        return course
    if course.step + 1 < len(course.remedy):
        return replace(course, step=course.step + 1, since=now, done=False)
    return replace(course, since=now, done=False) if now - course.since >= course.current.dwell_s else course


def _better(course: Course, now: float) -> Course | None:
    """One step down each minute, once it has been well for long enough; forgotten when it has not come back."""
    course = course if course.well_since is not None else replace(course, well_since=now)
    assert course.well_since is not None
    if course.step == CURED:
        return course if now - course.since < RECOVER_MOST_S else None
    if now - course.well_since < course.recover_s or now - course.since < STEP_DOWN_S:
        return course
    return replace(course, step=course.step - 1, since=now, done=True)


def _is_urgent(verdict: Verdict) -> bool:
    return verdict.numbers.get(Number.EXHAUSTION_SECONDS, URGENT_S) < URGENT_S


def _is_explained(verdict: Verdict, lingering: set[DetectorName]) -> bool:
    return verdict.detector is DetectorName.SLOWDOWN and not lingering.isdisjoint(EXPLAINS_SLOWNESS)


Outcome = tuple[State, list[Decision]]


def _levels(state: State, firing: dict[Finding, Verdict], conditions: Conditions, now: float) -> Outcome:
    """How tight, and how much is shed: the most that any course asks for."""
    decisions = []
    for kind, present in ((Tighten, state.tighten), (Shed, state.shed)):
        asked = {finding: course.level(kind) for finding, course in state.courses.items()}
        wanted = max(asked.values(), default=0)
        if wanted == present:
            continue
        if wanted > present:
            finding = max(asked, key=lambda each: asked[each])
            sentence = f"from level {present} to {wanted}: {state.courses[finding].sentence}"
        else:
            finding = max(state.courses, key=lambda each: state.courses[each].since)
            sentence = f"back from level {present} to {wanted}: no longer so is that {state.courses[finding].sentence}"
        decisions.append(Decision(now, kind(wanted), f"{_name(kind(wanted))} {sentence}", finding[0]))
        state = replace(state, tighten=wanted) if kind is Tighten else replace(state, shed=wanted)
    return state, decisions


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
            decisions.append(Decision(now, action, f"{_name(action)}: {course.sentence}", finding[0]))
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
    closed = Decision(now, CloseCircuit(), sentence, DetectorName.CRASHES)
    return replace(state, circuit_opened_at=None), [closed]


def _holds_circuit(course: Course) -> bool:
    return course.step != CURED and isinstance(course.current.action, OpenCircuit)


def _open_circuit(state: State, finding: Finding, why: str, now: float) -> Outcome:
    sentence = f"the circuit opens and no restart is ordered any more: {why}"
    return replace(state, circuit_opened_at=now), [Decision(now, OpenCircuit(), sentence, finding[0])]


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
    decision = Decision(now, action, f"{_name(action)}: {course.sentence}; {when}", finding[0])
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

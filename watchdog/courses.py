"""The course of one finding: up its ladder while it fires, down again when it has been well for a while. Pure.

A step that has not helped within its dwell is followed by the next. The way down begins when the finding has not fired
for `recover_s`, which doubles each time it comes back while its course is remembered, so that nothing swings. Merely
suspect is well: what fires, and what no longer does, is a matter of the detector's own hysteresis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .decisions import Shed, Tighten
from .remedies import HOUR_S, MINUTE_S, Remedy, Step, remedy
from .verdicts import Number, Verdict

URGENT_S = 45 * MINUTE_S
"""With less time than this until something runs out, no step is given time to help."""
RECOVER_S = 5 * MINUTE_S
RECOVER_MOST_S = HOUR_S
STEP_DOWN_S = MINUTE_S
CURED = -1


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
    """Since when the finding does not fire."""
    eased: bool = False
    """It has stepped down since it last fired."""
    recover_s: float = RECOVER_S

    @property
    def entered(self) -> tuple[Step, ...]:
        return self.remedy[: self.step + 1]

    @property
    def current(self) -> Step:
        return self.remedy[self.step]

    def level(self, kind: type[Tighten] | type[Shed]) -> int:
        return max((step.action.level for step in self.entered if isinstance(step.action, kind)), default=0)


def worse(course: Course | None, verdict: Verdict, explained: bool, now: float) -> Course:
    """The course of a finding that fires. While something else explains it, it does not climb."""
    if course is None:
        return Course(remedy(verdict), 0, now, verdict.sentence)
    if course.eased:
        course = replace(course, eased=False, recover_s=min(2 * course.recover_s, RECOVER_MOST_S))
    course = replace(course, sentence=verdict.sentence, well_since=None)
    if course.step == CURED:
        return replace(course, step=0, since=now, done=False)
    if explained:
        return replace(course, since=now)
    helpless = now - course.since >= course.current.dwell_s
    if course.step + 1 < len(course.remedy):
        climbs = helpless or _is_urgent(verdict)
        return replace(course, step=course.step + 1, since=now, done=False) if climbs else course
    return replace(course, since=now, done=False) if helpless else course


def better(course: Course, now: float) -> Course | None:
    """The course of a finding that does not fire; None when it is over and forgotten."""
    if course.well_since is None:
        course = replace(course, well_since=now)
    if course.step == CURED:
        return course if now - course.since < RECOVER_MOST_S else None
    assert course.well_since is not None
    if now - course.well_since < course.recover_s or now - course.since < STEP_DOWN_S:
        return course
    return replace(course, step=course.step - 1, since=now, done=True, eased=True)


def _is_urgent(verdict: Verdict) -> bool:
    return verdict.numbers.get(Number.EXHAUSTION_SECONDS, URGENT_S) < URGENT_S

"""What helps against what: for each finding the steps that the policy tries, mildest first.

A step's `dwell_s` is how long it may take to help before the next one is tried; the last one is tried again after it.
No restart stands where none can help: heat stays, and so does the memory of other programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .decisions import (
    Action,
    Child,
    EmptyPrefixCache,
    Observe,
    OpenCircuit,
    PlannedRestart,
    Reclaim,
    RestartNow,
    Shed,
    Tighten,
)
from .verdicts import Cause, DetectorName, Verdict

MINUTE_S = 60.0
HOUR_S = 3600.0


@dataclass(frozen=True)
class Step:
    """One rung of a ladder."""

    action: Action
    dwell_s: float = math.inf


Remedy = tuple[Step, ...]

_WATCH: Remedy = (Step(Observe()),)
_RESTART: Remedy = (Step(PlannedRestart(Child.ENGINE), 4 * HOUR_S), Step(RestartNow(Child.ENGINE), HOUR_S))
_MAKE_ROOM: Remedy = (
    Step(Reclaim(1), MINUTE_S),
    Step(Reclaim(2), 2 * MINUTE_S),
    Step(Tighten(1), 2 * MINUTE_S),
    Step(Shed(1), 5 * MINUTE_S),
)

_BY_CAUSE: dict[tuple[DetectorName, Cause | None], Remedy] = {
    (DetectorName.PRESSURE, Cause.OURS): (
        *_MAKE_ROOM,
        Step(Tighten(2), 5 * MINUTE_S),
        Step(Shed(2), 10 * MINUTE_S),
        Step(PlannedRestart(Child.ENGINE), 30 * MINUTE_S),
        Step(RestartNow(Child.ENGINE), HOUR_S),
    ),
    (DetectorName.PRESSURE, None): _MAKE_ROOM,
    (DetectorName.LEAK, None): (Step(Observe(), 0.0), Step(Reclaim(1), 10 * MINUTE_S), *_RESTART),
    (DetectorName.FRAGMENTATION, Cause.POOL): (Step(Reclaim(1), 30 * MINUTE_S), Step(Reclaim(2), 2 * HOUR_S)),
    (DetectorName.FRAGMENTATION, Cause.PREFIX_CACHE): (Step(Reclaim(2), 2 * HOUR_S),),
    (DetectorName.SWAP, Cause.OURS): (
        Step(Reclaim(2), 3 * MINUTE_S),
        Step(Tighten(1), 3 * MINUTE_S),
        Step(Shed(1), 10 * MINUTE_S),
        Step(Shed(2), 20 * MINUTE_S),
        *_RESTART,
    ),
    (DetectorName.SWAP, Cause.OTHERS): (Step(Observe(), 0.0), Step(Reclaim(1), HOUR_S)),
    (DetectorName.SWAP, None): (Step(Reclaim(1), 3 * MINUTE_S), Step(Tighten(1), 3 * MINUTE_S), Step(Shed(1))),
    (DetectorName.THERMAL, None): (Step(Tighten(1), 5 * MINUTE_S), Step(Shed(1))),
    (DetectorName.STALL, None): (Step(RestartNow(Child.ENGINE), 10 * MINUTE_S),),
    (DetectorName.SLOWDOWN, None): (Step(Observe(), 15 * MINUTE_S), Step(Reclaim(1), HOUR_S), *_RESTART[:1]),
    (DetectorName.ERRORS, None): (Step(Observe(), 5 * MINUTE_S), Step(RestartNow(Child.ENGINE), 2 * HOUR_S)),
    (DetectorName.CRASHES, None): (Step(OpenCircuit()),),
    (DetectorName.RESOURCES, None): (Step(Reclaim(2), 10 * MINUTE_S), *_RESTART),
    (DetectorName.DESCRIPTORS, Cause.ENGINE): _RESTART,
    (DetectorName.DESCRIPTORS, Cause.SERVICE): (Step(Observe(), 0.0), Step(PlannedRestart(Child.SERVICE), 4 * HOUR_S)),
    (DetectorName.CANARY, Cause.WRONG): (Step(EmptyPrefixCache()),),
    (DetectorName.CANARY, Cause.UNANSWERED): (Step(RestartNow(Child.ENGINE), HOUR_S),),
}


def remedy(verdict: Verdict) -> Remedy:
    """The steps for a firing verdict; what nothing can be done about is observed."""
    name = verdict.detector
    return _BY_CAUSE.get((name, verdict.cause)) or _BY_CAUSE.get((name, None)) or _WATCH


EXPLAINS_SLOWNESS = (DetectorName.THERMAL, DetectorName.SWAP, DetectorName.PRESSURE)
"""While one of these does more than nothing, decoding is slow because of it, and a restart would not help."""

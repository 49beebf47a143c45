"""What a soak run tells the watchdog: the words of `POST /soak`, for both ends of it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class GateOutcome(StrEnum):
    """What one gate of a run, or all of them, come to."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class SoakNews(msgspec.Struct, frozen=True):
    """A run as it stands: under way, or over with a verdict. `gates` is what each says now."""

    run: str
    active: bool
    verdict: GateOutcome
    sentence: str
    gates: dict[str, GateOutcome]

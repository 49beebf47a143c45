"""How much load to turn away while memory is short: a pure decision with hysteresis, every time passed in.

A level begins the moment that memory in use reaches its threshold, and ends, one level at a time, only after memory
has been below that threshold by a margin for a while. So a reading that swings within the margin changes nothing, and
one that swings further opens the door at most once in every while.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..config import Shedding

GB = 1e9


@dataclass(frozen=True)
class Usage:
    """Memory in use against what there is; `whose` names it for people."""

    whose: str
    used_bytes: int
    limit_bytes: int

    @property
    def share(self) -> float:
        return self.used_bytes / self.limit_bytes

    def __str__(self) -> str:
        sizes = f"{self.used_bytes / GB:.2f} of {self.limit_bytes / GB:.2f} GB"
        return f"{self.whose} uses {self.share:.1%} of its memory ({sizes})"


@dataclass(frozen=True)
class ShedDecision:
    """The level, from 0 (nothing is turned away) to 3 (everything new is), and why in one sentence."""

    level: int
    reason: str
    needed_at: float
    """When memory last was as short as the level is for, on the caller's clock in seconds."""


NOTHING_SHED = ShedDecision(0, "nothing is short", 0.0)


def decide(before: ShedDecision, usage: Usage, now: float, settings: Shedding) -> ShedDecision:
    """What follows from a reading at `now`. To be asked every few seconds at least, or levels end late."""
    reached = sum(usage.share >= threshold for threshold in settings.thresholds)
    if reached > before.level:
        return ShedDecision(reached, f"{usage}; level {reached} begins at {settings.thresholds[reached - 1]:.0%}", now)
    if before.level == 0:
        return before
    end = settings.thresholds[before.level - 1] - settings.margin
    if usage.share >= end:
        return dataclasses.replace(before, needed_at=now)
    below_s = now - before.needed_at
    if below_s < settings.hold_s:
        return before
    level = before.level - 1
    reason = f"{usage}; level {before.level} ended after {below_s:.0f} s below {end:.0%}"
    return ShedDecision(level, reason, now)

"""How short memory is, as the level of load to turn away for it: at once when it gets short, slowly back.

A level begins the moment that memory in use reaches its threshold, and ends, one level at a time, only after memory
has been below that threshold by a margin for a while. So a reading that swings within the margin changes nothing, and
one that swings further opens the door at most once in every while.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...config import Shedding
from ..samples import Sample

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


class Shortage:
    """From 0 (nothing is short) to 3 (nothing new fits). To be asked every few seconds at least, or levels end late."""

    def __init__(self, settings: Shedding) -> None:
        self._settings = settings
        self._needed_at = 0.0
        self.level = 0

    def update(self, usage: Usage | None, at: float) -> int:
        """The level after a reading; what is not known is not short."""
        share = 0.0 if usage is None else usage.share
        reached = sum(share >= threshold for threshold in self._settings.thresholds)
        if reached > self.level:
            self.level, self._needed_at = reached, at
        elif self.level and share >= self._settings.thresholds[self.level - 1] - self._settings.margin:
            self._needed_at = at
        elif self.level and at - self._needed_at >= self._settings.hold_s:
            self.level, self._needed_at = self.level - 1, at
        return self.level


def usage(sample: Sample) -> Usage | None:
    """The engine's live memory against its limit; the machine's, when the engine knows no limit or is not there."""
    engine, host = sample.engine, sample.host
    if engine is not None and engine.active_bytes is not None and engine.limit_bytes:
        return Usage("the engine", engine.active_bytes, engine.limit_bytes)
    if host.memory_bytes and host.available_bytes is not None:
        return Usage("the machine", host.memory_bytes - host.available_bytes, host.memory_bytes)
    return None

"""What a run is to be, written down before it begins: nothing of it changes afterwards, whoever goes on with it."""

from __future__ import annotations

import msgspec

from ..config import Gates
from .chaos import Rule

LONGEST_INTERVAL_S = 60.0
SHORTEST_INTERVAL_S = 1.0
INTERVALS = 240
"""At least so many in a run of any length that allows it: quarters of 60 are enough for a bound."""


class Plan(msgspec.Struct, frozen=True):
    """A run before it runs. `duration_s` is of load: what it is away comes on top."""

    duration_s: float
    workload: str
    scale: float
    seed: int
    chaos: tuple[Rule, ...]
    gates: dict[str, float | None]
    model: str
    streams: int | None = None
    """Conversations at once, if not as many as the workload has by itself."""

    @property
    def interval_s(self) -> float:
        return min(max(self.duration_s / INTERVALS, SHORTEST_INTERVAL_S), LONGEST_INTERVAL_S)

    @property
    def bounds(self) -> Gates:
        return Gates.model_validate(self.gates)

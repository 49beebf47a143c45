"""Up in streams until the target is full: when it is (pure), and the sweep itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from .estimate import Estimate, estimate
from .figures import METRICS, Seen

FULL_GAIN = 1.05
"""Twice the streams that bring less than this many times the throughput: the target is full."""
SLOW_FACTOR = 2.0

_BY_KEY = {metric.key: metric for metric in METRICS}


@dataclass(frozen=True, slots=True)
class Level:
    """Everything measured with so many streams."""

    streams: int
    sittings: tuple[Seen, ...]

    def estimate(self, key: str) -> Estimate | None:
        """One metric over all sittings."""
        return estimate(_BY_KEY[key].of(seen) for seen in self.sittings)

    def median(self, key: str) -> float | None:
        """Of one metric."""
        found = self.estimate(key)
        return None if found is None else found.median


def is_full(levels: Sequence[Level]) -> bool:
    """The last step up brought next to nothing."""
    if len(levels) < 2:
        return False
    before, now = (level.median("throughput") or 0.0 for level in levels[-2:])
    return now < before * FULL_GAIN


def full_at(levels: Sequence[Level]) -> int | None:
    """The number of streams that more streams do not outdo; None when the sweep ended before that."""
    for count in range(2, len(levels) + 1):
        if is_full(levels[:count]):
            return levels[count - 2].streams
    return None


def slow_at(levels: Sequence[Level]) -> int | None:
    """The number of streams at which the slowest twentieth waits twice as long for a first word as one alone."""
    alone = levels[0].median("ttft_p95") if levels else None
    for level in levels:
        p95 = level.median("ttft_p95")
        if alone is not None and p95 is not None and p95 >= SLOW_FACTOR * alone:
            return level.streams
    return None


async def sweep(sit: Callable[[int, int], Awaitable[Seen]], steps: Sequence[int], repeats: int) -> list[Level]:
    """`sit(streams, repeat)` measures once. Up the steps until the target is full; the same ones on each repeat."""
    levels: list[Level] = []
    for streams in steps:
        levels.append(Level(streams, (await sit(streams, 0),)))
        if is_full(levels):
            break
    for repeat in range(1, repeats):
        levels = [Level(each.streams, (*each.sittings, await sit(each.streams, repeat))) for each in levels]
    return levels


def doubling(most: int) -> tuple[int, ...]:
    """1, 2, 4, … up to `most`, and that itself."""
    return (*(step for step in (1 << power for power in range(most.bit_length())) if step < most), most)

"""Uptime, the share of time in which a request would have been answered, from the tree's intervals. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .records import Interval

TREE = "tree"
UP = "up"
DOWN = "down"
OFF = "off"


class Uptime(msgspec.Struct, frozen=True):
    """Seconds in each state; `off` is time after somebody stopped the tree, which counts for neither."""

    up_s: float = 0.0
    down_s: float = 0.0
    off_s: float = 0.0

    @property
    def share(self) -> float | None:
        """From 0 to 1; None when there was nothing to be up."""
        wanted_s = self.up_s + self.down_s
        return self.up_s / wanted_s if wanted_s > 0 else None


def uptime(intervals: Sequence[Interval], since: float, until: float) -> Uptime:
    """Of the tree's intervals, oldest first, between two moments.

    Nobody was there to write between two intervals: that is time down, unless the tree had been switched off.
    Nothing is said about the time before the first one. Overlaps, which a clock that was set back leaves, count once.
    """
    spent = {UP: 0.0, DOWN: 0.0, OFF: 0.0}
    reached = since
    state = OFF
    for index, interval in enumerate(intervals):
        begins = max(interval.since, reached)
        if index > 0 and begins > reached:
            spent[OFF if state == OFF else DOWN] += min(begins, until) - min(reached, until)
        ends = max(begins, interval.until)
        spent[interval.state] += min(ends, until) - min(begins, until)
        reached, state = max(reached, ends), interval.state
    if intervals and reached < until:
        spent[OFF if state == OFF else DOWN] += until - reached
    return Uptime(up_s=spent[UP], down_s=spent[DOWN], off_s=spent[OFF])

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


def spells(intervals: Sequence[Interval], since: float, until: float) -> list[Interval]:
    """Of the tree's intervals, oldest first, every moment between two exactly once.

    Nobody was there to write between two intervals: that is time down, unless the tree had been switched off.
    Nothing is said about the time before the first one. Overlaps, which a clock that was set back leaves, count once.
    """
    found: list[Interval] = []
    reached = since
    state = OFF

    def add(to: float, what: str) -> None:
        nonlocal reached
        begins, ends = min(reached, until), min(to, until)
        if ends > begins:
            found.append(Interval(TREE, begins, ends, what))
        reached = max(reached, to)

    for index, interval in enumerate(intervals):
        if index > 0:
            add(interval.since, OFF if state == OFF else DOWN)
        reached = max(reached, interval.since)
        add(interval.until, interval.state)
        state = interval.state
    if intervals:
        add(until, OFF if state == OFF else DOWN)
    return found


def uptime(intervals: Sequence[Interval], since: float, until: float) -> Uptime:
    """How long the tree was in each state between two moments."""
    return total(spells(intervals, since, until))


def total(spells: Sequence[Interval]) -> Uptime:
    """The seconds of spells by their states."""
    spent = {UP: 0.0, DOWN: 0.0, OFF: 0.0}
    for spell in spells:
        spent[spell.state] += spell.until - spell.since
    return Uptime(up_s=spent[UP], down_s=spent[DOWN], off_s=spent[OFF])

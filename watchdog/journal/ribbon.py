"""A stretch of the past in equal pieces, each with its uptime and how often an engine was started in it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from .records import Interval
from .uptime import Uptime, total


class Piece(msgspec.Struct, frozen=True):
    """From `since` to `until`; an uptime of nothing is time of which nothing is known."""

    since: float
    until: float
    uptime: Uptime
    engine_starts: int


def ribbon(
    spells: Sequence[Interval], engine_starts: Sequence[float], since: float, until: float, pieces: int
) -> list[Piece]:
    """`spells` have every moment once (`uptime.spells`), `engine_starts` their moments; both are oldest first."""
    begins, ends = [spell.since for spell in spells], [spell.until for spell in spells]
    edges = [since + (until - since) * number / pieces for number in range(pieces)] + [until]
    found: list[Piece] = []
    for start, end in pairwise(edges):
        within = spells[bisect_left(ends, start) : bisect_left(begins, end)]
        starts = bisect_left(engine_starts, end) - bisect_left(engine_starts, start)
        found.append(Piece(start, end, total([_clipped(spell, start, end) for spell in within]), starts))
    return found


def _clipped(spell: Interval, start: float, end: float) -> Interval:
    return msgspec.structs.replace(spell, since=max(spell.since, start), until=min(spell.until, end))

"""Whether latency at the end of a run is worse than at its beginning, and by how much at least. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from .histogram import Histogram, bucket_value, merged

QUANTILE = 0.95
LEAST_REQUESTS = 20
"""Of a quarter of the run: below it, its p95 is the second slowest of them, or chance altogether."""
RESAMPLES = 200
BLOCKS = 30
"""Of a quarter: consecutive intervals together, because what slows one often slows the next."""
CONFIDENCE = 0.95


class Drift(msgspec.Struct, frozen=True):
    """p95 of the first and of the last quarter in seconds, and their ratio with its one-sided 95 % bound.

    All None when a quarter has too few requests.
    """

    first_s: float | None = None
    last_s: float | None = None
    ratio: float | None = None
    lower: float | None = None


def drift(intervals: Sequence[Histogram], seed: int = 0) -> Drift:
    """Of a latency, by intervals of equal length. Blocks of them, not requests, are drawn anew for the bound: requests
    of one time share its weather, and would pretend to know more than they do."""
    quarter = len(intervals) // 4
    first, last = _blocks(intervals[:quarter]), _blocks(intervals[len(intervals) - quarter :])
    if min(merged(first).total, merged(last).total) < LEAST_REQUESTS:
        return Drift()
    before, after = merged(first).quantile(QUANTILE), merged(last).quantile(QUANTILE)
    assert before is not None
    assert after is not None
    draw = np.random.default_rng(seed)
    ratios = _p95s(last, draw) / _p95s(first, draw)
    return Drift(before, after, after / before, float(np.quantile(ratios, 1 - CONFIDENCE)))


def _blocks(intervals: Sequence[Histogram]) -> list[Histogram]:
    size = max(1, -(-len(intervals) // BLOCKS))
    return [merged(intervals[begin : begin + size]) for begin in range(0, len(intervals), size)]


def _p95s(blocks: Sequence[Histogram], draw: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The p95 of each of `RESAMPLES` draws of as many blocks, with replacement."""
    filled = [each for each in blocks if each.counts]
    buckets = sorted(merged(filled).counts)
    counts = np.array([[each.counts.get(bucket, 0) for bucket in buckets] for each in filled], dtype=np.float64)
    weights = draw.multinomial(len(filled), np.full(len(filled), 1 / len(filled)), size=RESAMPLES)
    cumulated = np.cumsum(weights @ counts, axis=1)
    at = (cumulated < QUANTILE * cumulated[:, -1:]).sum(axis=1)
    values = np.array([bucket_value(bucket) for bucket in buckets])
    return np.asarray(values[np.minimum(at, len(buckets) - 1)], dtype=np.float64)

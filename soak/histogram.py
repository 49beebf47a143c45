"""Latencies in few numbers that can be added up: a histogram whose quantiles are right within one percent.

Buckets grow by a constant factor, so that the error is relative: Masson, Rim and Lee, "DDSketch: a fast and
fully-mergeable quantile sketch with relative-error guarantees", VLDB 12 (2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

GROWTH = 1.02
LEAST_S = 1e-6
_LOG_GROWTH = math.log(GROWTH)


class Histogram(msgspec.Struct):
    """How many values fell into each bucket. Bucket i ends at GROWTH ** i."""

    counts: dict[int, int] = msgspec.field(default_factory=dict)

    def add(self, value: float) -> None:
        bucket = math.ceil(math.log(max(value, LEAST_S)) / _LOG_GROWTH)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """The value below which `share` of all lie; None when there is none."""
        return of_ranked([(bucket_value(bucket), self.counts[bucket]) for bucket in sorted(self.counts)], share)


def bucket_value(bucket: int) -> float:
    """What stands for all values of a bucket: within one percent of each."""
    return 2 * GROWTH**bucket / (GROWTH + 1)


def of_ranked(ranked: list[tuple[float, int]], share: float) -> float | None:
    """The quantile of values that come in order, each so many times."""
    left = math.ceil(share * sum(count for _, count in ranked))
    for value, count in ranked:
        left -= count
        if left <= 0 and count:
            return value
    return None


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All of them as one."""
    whole = Histogram()
    for each in histograms:
        for bucket, count in each.counts.items():
            whole.counts[bucket] = whole.counts.get(bucket, 0) + count
    return whole

"""Which traces are sent to the collector: a share of all, and of the others those that somebody will ask about. Pure.

The share is drawn when a request comes (head sampling), or its caller has decided. When it has ended it is kept all the
same if it failed, if an engine died under it, or if it took as long as the slowest of late (tail sampling).
"""

from __future__ import annotations

import bisect
from collections import deque

from .trace import Remote, Trace

WINDOW = 200
"""Requests among which the slowest are sought."""
SLOWEST_SHARE = 0.05
WARM_UP = 20
"""Requests that must have ended before one can be called slow."""
LOW_BITS = 1 << 56


def sampled(trace_id: int, ratio: float, remote: Remote | None) -> bool:
    """Drawn from the id, so that every service with this ratio draws the same; a caller's decision stands."""
    if remote is not None:
        return remote.sampled
    return trace_id % LOW_BITS >= (1 - ratio) * LOW_BITS


class Slowest:
    """Knows how long the last requests took."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, duration_s: float) -> bool:
        """Whether it is among the slowest of those before it."""
        is_slow = False
        if len(self._recent) >= WARM_UP:
            is_slow = duration_s > self._sorted[int(len(self._sorted) * (1 - SLOWEST_SHARE))]
        if len(self._recent) == WINDOW:
            del self._sorted[bisect.bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(duration_s)
        bisect.insort(self._sorted, duration_s)
        return is_slow


def kept(trace: Trace, is_slow: bool) -> bool:
    """Of one that has ended."""
    return trace.sampled or trace.resumed or is_slow or any(span.error is not None for span in trace.spans)

"""A clock that jumps from one event to the next."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Clock:
    """Seconds since the simulation began; call it to read it."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self._now

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Let `event` happen; those of the same moment happen in the order in which they were asked for."""
        heapq.heappush(self._events, (self._now + seconds, next(self._order), event))

    def run_until(self, end: float) -> None:
        """Let everything happen up to `end`, and be there."""
        while self._events and self._events[0][0] <= end:
            self._now, _, event = heapq.heappop(self._events)
            event()
        self._now = end

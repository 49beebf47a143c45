"""How fast requests end, and from that how long one should wait before it is sent again."""

from __future__ import annotations

import math
from collections.abc import Callable

WINDOW_S = 60.0
"""What happened this long ago counts a third (1/e) of what happens now."""
RETRY_MIN_S = 1
RETRY_MAX_S = 60


class Pace:
    """Ends per second, as an exponentially weighted count. The clock is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counted_since: float | None = None
        self._at = 0.0
        self._weight = 0.0

    def ended(self) -> None:
        """One more request has its answer."""
        now = self._clock()
        if self._counted_since is None:
            self._counted_since = now
        self._weight = self._decayed(now) + 1.0
        self._at = now

    def retry_after_s(self, ahead: int) -> int | None:
        """When one more would have its turn with `ahead` before it, in whole seconds; None before anything ended."""
        if self._counted_since is None:
            return None
        now = self._clock()
        # While the count is young its weight is not yet that of a whole window.
        share = 1.0 - math.exp(-max(now - self._counted_since, 1.0) / WINDOW_S)
        per_s = self._decayed(now) / (WINDOW_S * share)
        return min(max(math.ceil((ahead + 1) / max(per_s, 1e-9)), RETRY_MIN_S), RETRY_MAX_S)

    def _decayed(self, now: float) -> float:
        return self._weight * math.exp(-(now - self._at) / WINDOW_S)

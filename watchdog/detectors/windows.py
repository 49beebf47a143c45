"""What detectors remember of the past: little, and never more with time."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

MINUTE_S = 60.0
HOUR_S = 3600.0


class Held:
    """A condition that counts once it has held for `enter_s`, and until it has been away for `leave_s`."""

    def __init__(self, enter_s: float, leave_s: float) -> None:
        self._enter_s = enter_s
        self._leave_s = leave_s
        self._since: float | None = None
        self.on = False

    def update(self, at: float, bad: bool) -> bool:
        if bad == self.on:
            self._since = None
            return self.on
        self._since = at if self._since is None else self._since
        if at - self._since >= (self._enter_s if bad else self._leave_s):
            self.on = bad
            self._since = None
        return self.on


class Readings:
    """Readings of the last `span_s`, no closer together than `spacing_s`; the newest one is always there."""

    def __init__(self, span_s: float, spacing_s: float) -> None:
        self._span_s = span_s
        self._spacing_s = spacing_s
        self._kept: deque[tuple[float, float]] = deque()
        self._newest: tuple[float, float] | None = None

    def add(self, at: float, value: float) -> None:
        self._newest = (at, value)
        if not self._kept or at - self._kept[-1][0] >= self._spacing_s:
            self._kept.append(self._newest)
        # One reading older than the span stays, so that growth over the whole span is known.
        while len(self._kept) > 1 and self._kept[1][0] <= at - self._span_s:
            self._kept.popleft()

    @property
    def covered_s(self) -> float:
        return self._newest[0] - self._kept[0][0] if self._newest is not None else 0.0

    @property
    def growth(self) -> float:
        """The newest reading minus the oldest one."""
        return self._newest[1] - self._kept[0][1] if self._newest is not None else 0.0

    @property
    def values(self) -> list[float]:
        """The kept readings, oldest first, and the newest."""
        kept = [value for _, value in self._kept]
        if self._newest is not None and self._newest is not self._kept[-1]:
            kept.append(self._newest[1])
        return kept

    @property
    def lowest(self) -> float:
        return min(self.values)

    def at_before(self, seconds: float) -> float:
        """The newest kept reading that is at least `seconds` old, or the oldest."""
        assert self._newest is not None
        bound = self._newest[0] - seconds
        return next((value for at, value in reversed(self._kept) if at <= bound), self._kept[0][1])

    def clear(self) -> None:
        self._kept.clear()
        self._newest = None


class Counted:
    """How much a counter grew within `span_s`; a counter that starts again from 0 lost nothing and owes nothing."""

    def __init__(self, span_s: float, spacing_s: float) -> None:
        self._grown = Readings(span_s, spacing_s)
        self._last: float | None = None
        self._sum = 0.0

    def add(self, at: float, total: float) -> None:
        if self._last is not None:
            self._sum += max(total - self._last, 0.0)
        self._last = total
        self._grown.add(at, self._sum)

    @property
    def growth(self) -> float:
        return self._grown.growth

    @property
    def covered_s(self) -> float:
        return self._grown.covered_s

    def growth_within(self, seconds: float) -> float:
        return self._sum - self._grown.at_before(seconds) if self._last is not None else 0.0


class Low(NamedTuple):
    """The lowest value of a stretch of time, the load under which it was read, and all work done until then."""

    at: float
    value: float
    load: tuple[float, ...] = ()
    work: float = 0.0


class Minima:
    """The lows of consecutive stretches of `span_s`, the last `keep` of them.

    What a process needs at least is what it holds at its quietest: peaks of load and collections of garbage fall away.
    """

    def __init__(self, span_s: float, keep: int) -> None:
        self.span_s = span_s
        self.lows: deque[Low] = deque(maxlen=keep)
        self._number: int | None = None
        self._low: Low | None = None

    def add(self, low: Low) -> Low | None:
        """Take a reading; returns the low of the stretch that this one ended."""
        number = int(low.at // self.span_s)
        ended = None
        if self._number is not None and number != self._number and self._low is not None:
            ended = self._low
            self.lows.append(ended)
            self._low = None
        self._number = number
        if self._low is None or low.value < self._low.value:
            self._low = low
        return ended

    @property
    def full(self) -> bool:
        return len(self.lows) == self.lows.maxlen

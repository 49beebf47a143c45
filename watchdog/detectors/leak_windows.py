"""What one window sees of one signal, along one clock: whether the floor of the memory rises, and how fast at least.

There are two clocks, because leaks follow either. One is time. The other is work: hours in which as many requests end
as usual, so that a leak of each request rises along it as evenly by night as by day, and at night already shows what
the day will bring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from .trend import Trend, rises_steadily, trend, without_load
from .windows import HOUR_S, MINUTE_S, Low, Minima

FLOOR_BYTES_PER_HOUR = 5e6
"""What grows slower is not material, whatever the headroom."""
HORIZON_S = 72 * HOUR_S
P_VALUE = 0.01
IN_A_ROW = 3
FEWEST_POINTS = 12
LEAST_COVERED = 1 / 4
"""Of a window's length along its clock: what a night with two requests shows is no measure of a day."""


@dataclass(frozen=True)
class Window:
    """Minima of `bucket_s`, `buckets` of them; it answers for leaks that exhaust the memory within `horizon_s`."""

    bucket_s: float
    buckets: int
    horizon_s: float

    @property
    def span_s(self) -> float:
        return self.bucket_s * self.buckets


WINDOWS = (
    Window(MINUTE_S, 40, 4 * HOUR_S),
    Window(5 * MINUTE_S, 24, 12 * HOUR_S),
    Window(15 * MINUTE_S, 24, 36 * HOUR_S),
    Window(30 * MINUTE_S, 36, HORIZON_S),
)


@dataclass(frozen=True)
class Clock:
    """Along what memory may rise, in words, and where a low lies on it, in hours; None while that is not known.

    `hours` is also given how many requests end in an hour as a rule.
    """

    along: str
    hours: Callable[[Low, float], float | None]


def _hours_of_time(low: Low, usual: float) -> float:
    return low.at / HOUR_S


def _hours_of_work(low: Low, usual: float) -> float | None:
    return low.work / usual if usual > 0 else None


TIME = Clock("whatever the load", _hours_of_time)
WORK = Clock("with each request", _hours_of_work)


@dataclass(frozen=True)
class Finding:
    """What one window sees. `leaks`: every condition holds, this time."""

    signal: str
    along: str
    span_s: float
    trend: Trend
    headroom: float
    leaks: bool

    @property
    def exhaustion_s(self) -> float | None:
        return self.headroom / self.trend.slope * HOUR_S if self.trend.slope > 0 else None


class Belief:
    """What is believed of one window along one clock: three findings in a row begin it, three others end it."""

    def __init__(self, signal: str, window: Window, clock: Clock) -> None:
        self._signal = signal
        self._window = window
        self._clock = clock
        self._for = 0
        self._against = 0
        self.finding: Finding | None = None
        self.firing = False

    def judge(self, lows: Sequence[Low], headroom: float, usual: float) -> None:
        """`usual` is how many requests end in an hour as a rule."""
        self.finding = self._found(lows, headroom, usual)
        if self.suspects:
            self._for, self._against = self._for + 1, 0
        else:
            self._for, self._against = 0, self._against + 1
        if self._for >= IN_A_ROW:
            self.firing = True
        elif self._against >= IN_A_ROW:
            self.firing = False

    @property
    def suspects(self) -> bool:
        return self.finding is not None and self.finding.leaks

    def _found(self, lows: Sequence[Low], headroom: float, usual: float) -> Finding | None:
        """None when there is nothing to see."""
        first, last = self._clock.hours(lows[0], usual), self._clock.hours(lows[-1], usual)
        if first is None or last is None or last - first < LEAST_COVERED * self._window.span_s / HOUR_S:
            return None
        material = max(FLOOR_BYTES_PER_HOUR, headroom / self._window.horizon_s * HOUR_S)
        if not _is_worth_a_look(lows, material * (last - first)):
            return None
        hours = np.array([self._clock.hours(low, usual) for low in lows], dtype=np.float64) - first
        # Where nothing was done the clock of work stands still, and one point says all.
        moved = np.flatnonzero(np.diff(hours, prepend=-1.0) > 0)
        if len(moved) < FEWEST_POINTS:
            return None
        t, points = hours[moved], [lows[index] for index in moved.tolist()]
        y = without_load(t, np.array([low.value for low in points]), np.array([low.load for low in points]))
        found = trend(t, y)
        leaks = found.lower >= material and found.p <= P_VALUE and rises_steadily(t, y)
        return Finding(self._signal, self._clock.along, self._window.span_s, found, headroom, leaks)


class WindowWatch:
    """One window over one signal: judges along both clocks whenever one of its stretches ends."""

    def __init__(self, signal: str, window: Window) -> None:
        self._minima = Minima(window.bucket_s, window.buckets)
        self.beliefs = tuple(Belief(signal, window, clock) for clock in (TIME, WORK))

    def add(self, low: Low, headroom: float, usual: float) -> None:
        """`usual` is how many requests end in an hour as a rule."""
        if self._minima.add(low) is not None and self._minima.full:
            for belief in self.beliefs:
                belief.judge(self._minima.lows, headroom, usual)


def _is_worth_a_look(lows: Sequence[Low], growth: float) -> bool:
    """Cheap, and passed by what the tests could call a leak: the last sixth is well above the first."""
    count = len(lows)
    part = max(count // 6, 1)
    first, last = (median(lows[index].value for index in each) for each in (range(part), range(count - part, count)))
    return last - first >= 0.4 * growth

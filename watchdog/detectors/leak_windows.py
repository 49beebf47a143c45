"""What one window sees of one signal, along one clock: whether the floor of the memory rises, and how fast at least.

There are two clocks, because leaks follow either. One is time. The other is work: hours in which as many requests end
as usual, so that a leak of each request rises along it as evenly by night as by day, and at night already shows what
the day will bring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
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


class WindowWatch:
    """One window over one signal along one clock: judges whenever one of its stretches ends."""

    def __init__(self, signal: str, window: Window, clock: Clock) -> None:
        self._signal = signal
        self._window = window
        self._clock = clock
        self._minima = Minima(window.bucket_s, window.buckets)
        self._for = 0
        self._against = 0
        self.finding: Finding | None = None
        self.firing = False

    def add(self, low: Low, headroom: float, usual: float) -> None:
        """`usual` is how many requests end in an hour as a rule."""
        if self._minima.add(low) is not None and self._minima.full:
            self._note(self._judge(headroom, usual))

    def _judge(self, headroom: float, usual: float) -> Finding | None:
        """None when there is nothing to see."""
        material = max(FLOOR_BYTES_PER_HOUR, headroom / self._window.horizon_s * HOUR_S)
        lows = [(hours, low) for low in self._minima.lows if (hours := self._clock.hours(low, usual)) is not None]
        # Where nothing was done the clock of work stands still, and one point says all.
        lows = lows[:1] + [after for before, after in pairwise(lows) if after[0] > before[0]]
        if len(lows) < FEWEST_POINTS:
            return None
        covered = lows[-1][0] - lows[0][0]
        if covered < LEAST_COVERED * self._window.span_s / HOUR_S:
            return None
        if not _is_worth_a_look([low.value for _, low in lows], material * covered):
            return None
        t = np.array([hours - lows[0][0] for hours, _ in lows])
        y = without_load(t, np.array([low.value for _, low in lows]), np.array([low.load for _, low in lows]))
        found = trend(t, y)
        leaks = found.lower >= material and found.p <= P_VALUE and rises_steadily(t, y)
        return Finding(self._signal, self._clock.along, self._window.span_s, found, headroom, leaks)

    def _note(self, finding: Finding | None) -> None:
        self.finding = finding
        if finding is not None and finding.leaks:
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


def _is_worth_a_look(values: list[float], growth: float) -> bool:
    """Cheap, and passed by what the tests could call a leak: the last sixth is well above the first."""
    part = max(len(values) // 6, 1)
    return median(values[-part:]) - median(values[:part]) >= 0.4 * growth

"""Whether memory grew over a run whatever the load, and how fast at least: the watchdog's own trend test. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from ..watchdog.detectors.trend import rises_steadily, trend, without_load
from .intervals import Low

MOST_POINTS = 144
"""Half hours of 72 hours; the test looks at every pair of them."""
LEAST_POINTS = 12
WARM_UP_S = 900.0
WARM_UP_SHARE = 0.1
LONE_SHARE = 0.25
"""An incarnation is judged by itself when it lasted so much of the run: a new process has other memory."""
P_VALUE = 0.01
HOUR_S = 3600.0


class Growth(msgspec.Struct, frozen=True):
    """One kind of memory over the judged part of a run. `slope` and `lower`, its 99 % bound, are bytes an hour.

    `at` and `fitted` are the two ends of the fitted line. `steady`: it rises all the way, and not by chance.
    """

    signal: str
    slope: float
    lower: float
    steady: bool
    at: tuple[float, float]
    fitted: tuple[float, float]

    @property
    def hours(self) -> float:
        return (self.at[1] - self.at[0]) / HOUR_S


def growth(signal: str, lows: Sequence[Low]) -> Growth | None:
    """Of an interval's lowest readings, oldest first; None when there are too few to tell."""
    if not lows:
        return None
    length_s = lows[-1].at - lows[0].at
    begins = lows[0].at + min(WARM_UP_S, WARM_UP_SHARE * length_s)
    warm = [low for low in lows if low.at >= begins]
    found = [_fitted(signal, part) for part in _parts(warm, LONE_SHARE * length_s)]
    known = [each for each in found if each is not None]
    return max(known, key=lambda each: each.lower, default=None)


def _parts(lows: Sequence[Low], least_s: float) -> list[list[Low]]:
    """Each long incarnation; where none was long, all of them together, because each begins where the last one did."""
    by_epoch: dict[int, list[Low]] = {}
    for low in lows:
        by_epoch.setdefault(low.epoch, []).append(low)
    long = [part for part in by_epoch.values() if part[-1].at - part[0].at >= least_s]
    return long or [list(lows)]


def _fitted(signal: str, lows: Sequence[Low]) -> Growth | None:
    kept = _lowest_of_stretches(lows)
    if len(kept) < LEAST_POINTS:
        return None
    t = np.array([(low.at - kept[0].at) / HOUR_S for low in kept])
    load = np.array([(low.running, low.context_tokens) for low in kept], dtype=np.float64)
    y = without_load(t, np.array([low.value for low in kept], dtype=np.float64), load)
    found = trend(t, y)
    base = float(np.median(y - found.slope * t))
    return Growth(
        signal=signal,
        slope=found.slope,
        lower=found.lower,
        steady=found.p <= P_VALUE and rises_steadily(t, y),
        at=(kept[0].at, kept[-1].at),
        fitted=(base, base + found.slope * float(t[-1])),
    )


def _lowest_of_stretches(lows: Sequence[Low]) -> list[Low]:
    """At most `MOST_POINTS`: what a process needs at least is what it holds at its quietest."""
    size = -(-len(lows) // MOST_POINTS)
    stretches = (lows[begin : begin + size] for begin in range(0, len(lows), size))
    # A clock that was set back may show the same moment twice.
    lowest = {low.at: low for low in (min(stretch, key=lambda low: low.value) for stretch in stretches)}
    return [lowest[at] for at in sorted(lowest)]

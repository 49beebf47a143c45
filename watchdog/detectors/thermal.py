"""Hardware that slows down for heat: the system's own level, throttle counters, or clocks below what they were.

A clock is compared with what this machine does when busy and cool, which is learned: an all-core clock is far below the
highest one on any processor, and a virtual machine shows anything.
"""

from __future__ import annotations

from ..samples import Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .windows import MINUTE_S, Counted, Held

HEAVY_LEVEL, MODERATE_LEVEL = 2, 1
THROTTLES_PER_MINUTE = 3
LOW_CLOCK = 0.8
"""Of the usual busy clock."""
HOLD_S = 2 * MINUTE_S
LEAVE_S = 5 * MINUTE_S
LEARN_READINGS = 30
LEARN_EVERY_S = 10.0
FORGET = 0.999
SMOOTH_S = MINUTE_S


class ThermalDetector:
    """Fires when any of the three has held for two minutes."""

    def __init__(self) -> None:
        self._heavy = Held(HOLD_S, LEAVE_S)
        self._moderate = Held(HOLD_S, LEAVE_S)
        self._throttles = Counted(2 * MINUTE_S, 10.0)
        self._usual_clock = 0.0
        self._clock = 0.0
        self._clock_readings = 0
        self._read_at = 0.0
        self._learned_at = float("-inf")

    def update(self, sample: Sample) -> Verdict:
        host = sample.host
        busy = sample.engine is not None and bool(sample.engine.running)
        ratio = self._clock_against_usual(sample.at, host.clock_ratio) if busy else None
        throttles = 0.0
        if host.throttles_total is not None:
            self._throttles.add(sample.at, host.throttles_total)
            throttles = self._throttles.growth / 2
        level = host.thermal_level or 0
        slow = ratio is not None and ratio < LOW_CLOCK
        heavy = level >= HEAVY_LEVEL or throttles >= THROTTLES_PER_MINUTE or slow
        firing = self._heavy.update(sample.at, heavy)
        suspect = self._moderate.update(sample.at, heavy or level >= MODERATE_LEVEL)
        numbers = {Number.THROTTLES_PER_MINUTE: throttles} if host.throttles_total is not None else {}
        if host.thermal_level is not None:
            numbers[Number.THERMAL_LEVEL] = float(host.thermal_level)
        if ratio is not None:
            numbers[Number.CLOCK_RATIO] = ratio
        verdict = Level.FIRING if firing else Level.SUSPECT if suspect else Level.OK
        return Verdict(DetectorName.THERMAL, verdict, _sentence(numbers), numbers, HOLD_S, 1.0)

    def _clock_against_usual(self, at: float, clock: float | None) -> float | None:
        """The smoothed busy clock over the usual one; None while that is not learned."""
        if clock is None:
            return None
        share = min((at - self._read_at) / SMOOTH_S, 1.0) if self._clock_readings else 1.0
        self._clock += share * (clock - self._clock)
        self._read_at = at
        if at - self._learned_at >= LEARN_EVERY_S:
            self._learn(clock)
            self._learned_at = at
        known = self._clock_readings >= LEARN_READINGS and self._usual_clock > 0
        return self._clock / self._usual_clock if known else None

    def _learn(self, clock: float) -> None:
        """The mean at first, then slowly on; low clocks teach nothing."""
        if self._clock_readings < LEARN_READINGS:
            self._clock_readings += 1
            self._usual_clock += (clock - self._usual_clock) / self._clock_readings
        elif self._clock > 0.9 * self._usual_clock:
            self._usual_clock = FORGET * self._usual_clock + (1 - FORGET) * clock


def _sentence(numbers: dict[Number, float]) -> str:
    parts = []
    if Number.THERMAL_LEVEL in numbers:
        parts.append(f"the system's thermal level is {numbers[Number.THERMAL_LEVEL]:.0f}")
    if Number.THROTTLES_PER_MINUTE in numbers:
        parts.append(f"the hardware throttled {numbers[Number.THROTTLES_PER_MINUTE]:.0f} times a minute")
    if Number.CLOCK_RATIO in numbers:
        parts.append(f"the busy clock is {numbers[Number.CLOCK_RATIO]:.0%} of its usual")
    return ", ".join(parts) or "this machine tells nothing about heat"

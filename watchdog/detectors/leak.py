"""Memory that grows whatever the load.

Two signals, apart: what MLX holds beside weights and KV, and what the process has beside what MLX knows of. A trend
test on raw memory fires in nearly every healthy 72 hours (cycles, plateaus, sawtooth); docs/detection.md says what is
done about each. Four windows look at the same minima by the minute: each finds leaks that would exhaust the memory
within some times its own length, so that a fast leak is found in minutes and a slow one is not believed on little.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

import numpy as np

from ..samples import EngineReading, Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .trend import Trend, rises_steadily, trend, without_load
from .windows import HOUR_S, MINUTE_S, Low, Minima

GB = 1e9
WARM_UP_S = 15 * MINUTE_S
FLOOR_BYTES_PER_HOUR = 5e6
"""What grows slower is not material, whatever the headroom."""
HORIZON_S = 72 * HOUR_S
P_VALUE = 0.01
IN_A_ROW = 3
HEADROOM_SPANS = 48


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
class Finding:
    """What one window sees. `leaks`: every condition holds, this time."""

    signal: str
    span_s: float
    trend: Trend
    headroom: float
    leaks: bool

    @property
    def exhaustion_s(self) -> float | None:
        return self.headroom / self.trend.slope * HOUR_S if self.trend.slope > 0 else None


class WindowWatch:
    """One window over one signal: judges whenever one of its stretches ends."""

    def __init__(self, signal: str, window: Window) -> None:
        self._signal = signal
        self._window = window
        self._minima = Minima(window.bucket_s, window.buckets)
        self._for = 0
        self._against = 0
        self.finding: Finding | None = None
        self.firing = False

    def add(self, low: Low, headroom: float) -> None:
        if self._minima.add(low) is not None and self._minima.full:
            self._judge(headroom)

    def _judge(self, headroom: float) -> None:
        lows = list(self._minima.lows)
        material = max(FLOOR_BYTES_PER_HOUR, headroom / self._window.horizon_s * HOUR_S)
        if not _is_worth_a_look([low.value for low in lows], material * (lows[-1].at - lows[0].at) / HOUR_S):
            self._note(None)
            return
        t = np.array([(low.at - lows[0].at) / HOUR_S for low in lows])
        y = without_load(t, np.array([low.value for low in lows]), np.array([low.load for low in lows]))
        found = trend(t, y)
        leaks = found.lower >= material and found.p <= P_VALUE and rises_steadily(y)
        self._note(Finding(self._signal, self._window.span_s, found, headroom, leaks))

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


class LeakDetector:
    """Of one incarnation of the engine; another one needs another detector."""

    def __init__(self) -> None:
        self._watches = {
            signal: [WindowWatch(signal, window) for window in WINDOWS] for signal in ("MLX", "the process outside MLX")
        }
        self._minutes = {signal: Minima(MINUTE_S, 1) for signal in self._watches}
        self._began: float | None = None
        self._headrooms: deque[float] = deque(maxlen=HEADROOM_SPANS)
        self._headroom_of: int | None = None
        self._verdict = Verdict(DetectorName.LEAK, Level.OK, "too early to know whether memory leaks")

    def update(self, sample: Sample) -> Verdict:
        engine = sample.engine
        if engine is None:
            return self._verdict
        self._began = sample.at if self._began is None else self._began
        self._note_headroom(sample, engine)
        if sample.at - self._began < WARM_UP_S or not self._headrooms:
            return self._verdict
        changed = False
        load = (float(engine.running or 0), float(engine.context_tokens or 0))
        for signal, value in (("MLX", _mlx_rest(engine)), ("the process outside MLX", _process_rest(engine))):
            if value is None:
                continue
            minute = self._minutes[signal].add(Low(sample.at, value, load))
            if minute is not None:
                changed = True
                for watch in self._watches[signal]:
                    watch.add(minute, min(self._headrooms))
        if changed:
            self._verdict = _judged([watch for watches in self._watches.values() for watch in watches])
        return self._verdict

    def _note_headroom(self, sample: Sample, engine: EngineReading) -> None:
        """Keep the least room of each half hour of a day: what load takes at its peak is not there for a leak."""
        headroom = _headroom(sample, engine)
        if headroom is None:
            return
        span = int(sample.at // (30 * MINUTE_S))
        if span == self._headroom_of:
            self._headrooms[-1] = min(self._headrooms[-1], headroom)
        else:
            self._headrooms.append(headroom)
            self._headroom_of = span


def _is_worth_a_look(values: list[float], growth: float) -> bool:
    """Cheap, and passed by what the tests could call a leak: the last sixth is well above the first."""
    part = max(len(values) // 6, 1)
    return median(values[-part:]) - median(values[:part]) >= 0.4 * growth


def _mlx_rest(engine: EngineReading) -> float | None:
    if engine.active_bytes is None or engine.weights_bytes is None or engine.kv_bytes is None:
        return None
    return float(engine.active_bytes - engine.weights_bytes - engine.kv_bytes)


def _process_rest(engine: EngineReading) -> float | None:
    if engine.footprint_bytes is None:
        return None
    return float(engine.footprint_bytes - (engine.active_bytes or 0) - (engine.cache_bytes or 0))


def _headroom(sample: Sample, engine: EngineReading) -> float | None:
    """Bytes until something gives; the pool can be given back and counts as room."""
    rooms = []
    if engine.limit_bytes is not None and engine.active_bytes is not None:
        rooms.append(float(engine.limit_bytes - engine.active_bytes))
    if sample.host.available_bytes is not None:
        rooms.append(float(sample.host.available_bytes + (engine.cache_bytes or 0)))
    return max(min(rooms), 0.0) if rooms else None


def _judged(watches: list[WindowWatch]) -> Verdict:
    firing = [watch.finding for watch in watches if watch.firing and watch.finding is not None]
    suspected = [watch.finding for watch in watches if watch.suspects and watch.finding is not None]
    seen = [watch.finding for watch in watches if watch.finding is not None]
    if firing:
        return _verdict(Level.FIRING, min(firing, key=_urgency))
    if suspected:
        return _verdict(Level.SUSPECT, min(suspected, key=_urgency))
    if seen:
        return _verdict(Level.OK, max(seen, key=lambda finding: finding.span_s))
    return Verdict(DetectorName.LEAK, Level.OK, "memory does not grow beyond its load", confidence=1.0)


def _urgency(finding: Finding) -> float:
    return finding.exhaustion_s or float("inf")


def _verdict(level: Level, finding: Finding) -> Verdict:
    numbers = {
        Number.SLOPE_BYTES_PER_HOUR: finding.trend.slope,
        Number.SLOPE_LOWER_BOUND_BYTES_PER_HOUR: finding.trend.lower,
        Number.HEADROOM_BYTES: finding.headroom,
    }
    until = ""
    if finding.exhaustion_s is not None:
        numbers[Number.EXHAUSTION_SECONDS] = finding.exhaustion_s
        until = f": the {finding.headroom / GB:.1f} GB left would last {finding.exhaustion_s / HOUR_S:.1f} h"
    grows = "grows whatever the load" if level is Level.FIRING else "seems to grow"
    if level is Level.OK:
        grows = "grows no faster than chance or load explain"
    sentence = (
        f"{finding.signal}: memory {grows}, {finding.trend.slope / 1e6:.0f} MB/h over {finding.span_s / HOUR_S:.1f} h "
        f"(at least {finding.trend.lower / 1e6:.0f}){until}"
    )
    return Verdict(DetectorName.LEAK, level, sentence, numbers, finding.span_s, 1 - finding.trend.p)

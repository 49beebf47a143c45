"""Memory that grows whatever the load.

Two signals, apart: what MLX holds beside weights and KV, and what the process has beside what MLX knows of. A trend
test on raw memory fires in nearly every healthy 72 hours (cycles, plateaus, sawtooth); docs/detection.md says what is
done about each. Four windows look at the same minima by the minute, along time and along work (`leak_windows`): each
finds leaks that would exhaust the memory within some times its own length, so that a fast leak is found in minutes and
a slow one is not believed on little.
"""

from __future__ import annotations

from collections import deque

from ..samples import EngineReading, Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .leak_windows import WINDOWS, Belief, Finding, WindowWatch
from .windows import HOUR_S, MINUTE_S, Low, Minima, Readings

GB = 1e9
WARM_UP_S = 15 * MINUTE_S
DAY_S = 24 * HOUR_S
SPAN_S = 30 * MINUTE_S
SIGNALS = ("MLX", "the process outside MLX")


class LeakDetector:
    """Of one incarnation of the engine; another one needs another detector."""

    def __init__(self) -> None:
        self._watches = {signal: [WindowWatch(signal, window) for window in WINDOWS] for signal in SIGNALS}
        self._minutes = {signal: Minima(MINUTE_S, 1) for signal in self._watches}
        self._began: float | None = None
        self._headrooms: deque[float] = deque(maxlen=round(DAY_S / SPAN_S))
        self._headroom_of: int | None = None
        self._requests = Readings(DAY_S, SPAN_S)
        self._finished = 0.0
        self._verdict = Verdict(DetectorName.LEAK, Level.OK, "too early to know whether memory leaks")

    def update(self, sample: Sample) -> Verdict:
        engine = sample.engine
        if engine is None:
            return self._verdict
        self._began = sample.at if self._began is None else self._began
        self._note_headroom(sample, engine)
        if engine.requests_total is not None:
            self._finished = float(engine.requests_total)
            self._requests.add(sample.at, self._finished)
        if sample.at - self._began < WARM_UP_S or not self._headrooms:
            return self._verdict
        ended = [
            self._read(signal, rest, sample.at, engine) for signal, rest in zip(SIGNALS, rests(engine), strict=True)
        ]
        if any(ended):
            watches = [watch for watches in self._watches.values() for watch in watches]
            self._verdict = _judged([belief for watch in watches for belief in watch.beliefs])
        return self._verdict

    def _read(self, signal: str, value: float | None, at: float, engine: EngineReading) -> bool:
        """Whether a minute has ended, and with it something new was seen."""
        if value is None:
            return False
        load = (float(engine.running or 0), float(engine.context_tokens or 0))
        minute = self._minutes[signal].add(Low(at, value, load, self._finished))
        if minute is None:
            return False
        headroom, usual = min(self._headrooms), self._usual_requests_an_hour
        for watch in self._watches[signal]:
            watch.add(minute, headroom, usual)
        return True

    @property
    def _usual_requests_an_hour(self) -> float:
        """Over the last day; 0 while nothing is known."""
        covered_s = self._requests.covered_s
        return self._requests.growth / covered_s * HOUR_S if covered_s >= SPAN_S else 0.0

    def _note_headroom(self, sample: Sample, engine: EngineReading) -> None:
        """Keep the least room of each half hour of a day: what load takes at its peak is not there for a leak."""
        headroom = _headroom(sample, engine)
        if headroom is None:
            return
        span = int(sample.at // SPAN_S)
        if span == self._headroom_of:
            self._headrooms[-1] = min(self._headrooms[-1], headroom)
        else:
            self._headrooms.append(headroom)
            self._headroom_of = span


def rests(engine: EngineReading) -> tuple[float | None, float | None]:
    """Bytes of each of `SIGNALS`, where they are known."""
    active, cache = engine.active_bytes, engine.cache_bytes or 0
    known = active is not None and engine.weights_bytes is not None and engine.kv_bytes is not None
    return (
        float((active or 0) - (engine.weights_bytes or 0) - (engine.kv_bytes or 0)) if known else None,
        None if engine.footprint_bytes is None else float(engine.footprint_bytes - (active or 0) - cache),
    )


def _headroom(sample: Sample, engine: EngineReading) -> float | None:
    """Bytes until something gives; the pool can be given back and counts as room."""
    rooms = []
    if engine.limit_bytes is not None and engine.active_bytes is not None:
        rooms.append(float(engine.limit_bytes - engine.active_bytes))
    if sample.host.available_bytes is not None:
        rooms.append(float(sample.host.available_bytes + (engine.cache_bytes or 0)))
    return max(min(rooms), 0.0) if rooms else None


def _judged(beliefs: list[Belief]) -> Verdict:
    firing = [belief.finding for belief in beliefs if belief.firing and belief.finding is not None]
    suspected = [belief.finding for belief in beliefs if belief.suspects and belief.finding is not None]
    seen = [belief.finding for belief in beliefs if belief.finding is not None]
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
    grows = f"grows {finding.along}" if level is Level.FIRING else f"seems to grow {finding.along}"
    if level is Level.OK:
        grows = "grows no faster than chance or load explain"
    sentence = (
        f"{finding.signal}: memory {grows}, {finding.trend.slope / 1e6:.0f} MB/h over {finding.span_s / HOUR_S:.1f} h "
        f"(at least {finding.trend.lower / 1e6:.0f}){until}"
    )
    return Verdict(DetectorName.LEAK, level, sentence, numbers, finding.span_s, 1 - finding.trend.p)

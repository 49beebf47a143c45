"""Decoding that is slower than it was, at the same batch and context.

The usual speed is learned from the machine itself: seconds of a decode step, for each number of rows and each context a
row, in cells a quarter apart. No formula: rows and context mostly rise together, and what a fit makes of that is wrong
elsewhere. A cell that was seldom seen is not judged. How far the present minute is off goes into a CUSUM (Page,
"Continuous inspection schemes", Biometrika 41, 1954): a brief or small slip does not trip it, a lasting one does. While
things are slow nothing is learned, or a slow decline would become usual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from ..samples import EngineReading, Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .windows import MINUTE_S

CELL = math.log(1.25)
SHORTEST_CONTEXT = 100.0
MOST_CELLS = 2000
LEARN_MINUTES = 5
REMEMBERED_MINUTES = 60
ALLOWANCE = 0.15
"""Log ratio that is still usual; a tenth slower one day is no finding."""
SPREADS = 1.5
"""A cell that scatters more than that has an allowance of so many of its standard deviations."""
ALARM = 1.5
"""CUSUM at which it fires: about five minutes at half the speed, half an hour at four fifths."""
FIRING_RATIO = 1.25
WELL_RATIO = 1.1
STEADY = 0.1
SMOOTHING = 0.25
SAMPLES_A_MINUTE = 60


@dataclass
class Usual:
    """Log seconds of a step in one cell: mean, variance, and over how many minutes."""

    mean: float = 0.0
    variance: float = 0.0
    minutes: int = 0

    def learn(self, value: float) -> None:
        """Of all minutes at first, then of the last hour or so."""
        self.minutes = min(self.minutes + 1, REMEMBERED_MINUTES)
        off = value - self.mean
        self.mean += off / self.minutes
        self.variance += (off * (value - self.mean) - self.variance) / self.minutes


def _cell(rows: float, context: float) -> tuple[int, int]:
    """By the logarithms of the rows and of the context a row; a few hundred cells at most."""
    return round(math.log(rows) / CELL), round(math.log(max(context / rows, SHORTEST_CONTEXT)) / CELL)


class SlowdownDetector:
    """Of one model on one machine; other weights begin anew, another incarnation does not."""

    def __init__(self) -> None:
        self._weights_bytes: int | None = None
        self._tells_context = False
        self._forget()
        self._minute: int | None = None
        self._readings: list[tuple[float, float, float]] = []

    def _forget(self) -> None:
        self._usual: dict[tuple[int, int], Usual] = {}
        self._cusum = 0.0
        self._ratio: float | None = None
        self._firing = False

    def update(self, sample: Sample) -> Verdict:
        engine = sample.engine
        if engine is not None:
            if engine.weights_bytes != self._weights_bytes and engine.weights_bytes is not None:
                self._weights_bytes = engine.weights_bytes
                self._forget()
            self._read(sample.at, engine)
        return self._verdict()

    def _read(self, at: float, engine: EngineReading) -> None:
        minute = int(at // MINUTE_S)
        if minute != self._minute:
            if self._readings:
                self._judge(*(median(column) for column in zip(*self._readings, strict=True)))
            self._readings.clear()
            self._minute = minute
        self._tells_context = self._tells_context or engine.context_tokens is not None
        if self._tells_context and engine.context_tokens is None:
            return  # taken for none, it would look slow
        rows, speed = engine.batch, engine.decode_tokens_per_s
        if rows and speed and len(self._readings) < SAMPLES_A_MINUTE:
            self._readings.append((rows, float(engine.context_tokens or 0), rows / speed))

    def _judge(self, rows: float, context: float, seconds: float) -> None:
        cell = _cell(rows, context)
        if cell not in self._usual and len(self._usual) >= MOST_CELLS:
            return
        usual = self._usual.setdefault(cell, Usual())
        value = math.log(seconds)
        if usual.minutes < LEARN_MINUTES:
            if self._cusum < ALARM / 3:
                usual.learn(value)
            return
        off = value - usual.mean
        before = off if self._ratio is None else math.log(self._ratio)
        self._ratio = math.exp(before + SMOOTHING * (off - before))
        # Bounded, so that the way back takes no longer than the way there.
        allowance = max(ALLOWANCE, SPREADS * math.sqrt(usual.variance))
        self._cusum = min(max(self._cusum + off - allowance, 0.0), 1.5 * ALARM)
        if self._cusum >= ALARM and self._ratio >= FIRING_RATIO:
            self._firing = True
        elif self._cusum < ALARM / 3 or self._ratio < WELL_RATIO:
            self._firing, self._cusum = False, min(self._cusum, ALARM / 3)
        if off < max(STEADY, allowance - ALLOWANCE + STEADY) and self._cusum < ALARM / 3:
            usual.learn(value)

    def _verdict(self) -> Verdict:
        if self._ratio is None:
            return Verdict(DetectorName.SLOWDOWN, Level.OK, "the usual decode speed is not yet known")
        level = Level.FIRING if self._firing else Level.SUSPECT if self._cusum >= ALARM / 2 else Level.OK
        sentence = (
            f"a decode step takes {self._ratio:.2f} times as long as is usual for its rows and context"
            if self._ratio >= 1
            else f"decoding is as fast as usual ({1 / self._ratio:.2f} times)"
        )
        numbers = {Number.SLOWDOWN_RATIO: self._ratio}
        return Verdict(DetectorName.SLOWDOWN, level, sentence, numbers, 10 * MINUTE_S, min(self._cusum / ALARM, 1.0))

"""Decoding that is slower than it was, at the same batch and context.

A decode step reads the weights once and each row's KV, so its seconds are a + b * rows + c * tokens of context.
The three are learned from the machine itself, by recursive least squares on relative errors, once a busy minute. How
far off the present minute is goes into a CUSUM (Page, "Continuous inspection schemes", Biometrika 41, 1954): a brief or
small slip does not trip it, a lasting one does. Slow minutes teach nothing, or a slow decline would become usual.
"""

from __future__ import annotations

import math
from statistics import median

import numpy as np

from ..samples import EngineReading, Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .windows import MINUTE_S

LEARN_MINUTES = 45
ALLOWANCE = 0.15
"""Log ratio that is still usual; a tenth slower one day is no finding."""
ALARM = 1.5
"""CUSUM at which it fires: about five minutes at half the speed, half an hour at four fifths."""
FIRING_RATIO = 1.25
STEADY = 0.1
FORGET = 0.9995
SMOOTHING = 0.25
MOST_LEVERAGE = 0.2
"""A batch and context unlike what was learned is not judged; it is learned."""
SAMPLES_A_MINUTE = 60


class Baseline:
    """Seconds of a decode step by rows and context. At most three numbers and their covariance."""

    def __init__(self) -> None:
        self._weights = np.zeros(3)
        self._covariance = np.eye(3) * 1e6
        self.minutes = 0

    def expected_s(self, rows: float, context: float) -> float | None:
        """None where too little is known about such a step."""
        x = _features(rows, context)
        expected = float(self._weights @ x)
        if self.minutes < LEARN_MINUTES or expected <= 0:
            return None
        leverage = float(x @ self._covariance @ x) / expected**2
        return expected if leverage <= MOST_LEVERAGE else None

    def learn(self, rows: float, context: float, seconds: float) -> None:
        """Divided by the seconds themselves, so that errors are relative."""
        x = _features(rows, context) / seconds
        projected = self._covariance @ x
        gain = projected / (FORGET + float(x @ projected))
        self._weights = self._weights + gain * (1 - float(self._weights @ x))
        self._covariance = (self._covariance - np.outer(gain, projected)) / FORGET
        np.fill_diagonal(self._covariance, np.minimum(np.diag(self._covariance), 1e6))
        self.minutes += 1


def _features(rows: float, context: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([1.0, rows, context / 1000])


class SlowdownDetector:
    """Of one model on one machine; other weights begin anew, another incarnation does not."""

    def __init__(self) -> None:
        self._weights_bytes: int | None = None
        self._tells_context = False
        self._forget()
        self._minute: int | None = None
        self._readings: list[tuple[float, float, float]] = []

    def _forget(self) -> None:
        self._baseline = Baseline()
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
        expected_s = self._baseline.expected_s(rows, context)
        if expected_s is None:
            self._baseline.learn(rows, context, seconds)
            return
        off = math.log(seconds / expected_s)
        self._ratio = (
            math.exp(off) if self._ratio is None else self._ratio ** (1 - SMOOTHING) * math.exp(SMOOTHING * off)
        )
        # Bounded, so that the way back takes no longer than the way there.
        self._cusum = min(max(self._cusum + off - ALLOWANCE, 0.0), 1.5 * ALARM)
        if self._cusum >= ALARM and self._ratio >= FIRING_RATIO:
            self._firing = True
        elif self._cusum < ALARM / 3:
            self._firing = False
        if off < STEADY and self._cusum < ALARM / 3:
            self._baseline.learn(rows, context, seconds)

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

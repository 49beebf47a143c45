"""An engine that has work and finishes no step, seen from the samples.

The supervisor replaces a stuck engine by itself and within seconds (`watchdog/stall.py`); this verdict records it, and
is there for the case that the supervisor cannot. So its bound is longer.
"""

from __future__ import annotations

from ..samples import EngineReading, Sample
from ..verdicts import DetectorName, Level, Number, Verdict

FIRING_S = 60.0
SUSPECT_S = 15.0
PATIENCE = 3.0
"""A step may take this many times what its pace promises before it is suspect, twice that before it fires."""


class StallDetector:
    """Counts the time without a step in the samples' own time, in pieces that a sleeping machine cannot stretch."""

    def __init__(self) -> None:
        self._stuck_s = 0.0
        self._at: float | None = None
        self._usual_s: float | None = None
        self._progress: tuple[int, int | None] | None = None

    def update(self, sample: Sample) -> Verdict:
        piece_s = self._piece(sample.at)
        engine = sample.engine
        if engine is None or not _pending(engine) or self._progress != (engine.epoch, engine.steps_total):
            self._stuck_s = 0.0
        elif engine.steps_total is not None:
            self._stuck_s += piece_s
        self._progress = (engine.epoch, engine.steps_total) if engine is not None else None
        promised_s = PATIENCE * ((engine.step_bound_s or 0.0) if engine is not None else 0.0)
        firing_s, suspect_s = max(FIRING_S, 2 * promised_s), max(SUSPECT_S, promised_s)
        stuck = self._stuck_s
        level = Level.FIRING if stuck > firing_s else Level.SUSPECT if stuck > suspect_s else Level.OK
        sentence = "the engine steps, or has nothing to do"
        if level is not Level.OK and engine is not None:
            work = f"{engine.running or 0} requests run and {engine.waiting or 0} wait"
            sentence = f"no step for {stuck:.0f} s (bound {firing_s:.0f} s) while {work}"
        numbers = {Number.STEP_AGE_SECONDS: stuck, Number.BOUND_SECONDS: firing_s}
        return Verdict(DetectorName.STALL, level, sentence, numbers, stuck, min(stuck / firing_s, 1.0))

    def _piece(self, at: float) -> float:
        """Time since the last sample, at most twice the usual: in a longer gap nobody was looking."""
        if self._at is None:
            self._at = at
            return 0.0
        gap_s = at - self._at
        self._at = at
        piece_s = gap_s if self._usual_s is None else min(gap_s, 2 * self._usual_s)
        self._usual_s = piece_s
        return piece_s


def _pending(engine: EngineReading) -> bool:
    return (engine.running or 0) + (engine.waiting or 0) > 0

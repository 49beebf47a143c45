"""Recorded samples through the real detectors and the real policy: a time line of what changed and what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from .decisions import Conditions, Decision
from .panel import Panel, Sensitivity
from .policy import State, decide
from .samples import Sample
from .verdicts import DetectorName, Level, Verdict


class Event(msgspec.Struct, frozen=True):
    """A verdict whose level changed, or a decision; exactly one of them."""

    at: float
    wall: float
    verdict: Verdict | None = None
    decision: Decision | None = None


class Quiet:
    """How long no request has run or waited, and how long the engine has been up, as far as samples tell."""

    def __init__(self) -> None:
        self._busy_at: float | None = None
        self._epoch: int | None = None
        self._since = 0.0

    def conditions(self, sample: Sample) -> Conditions:
        engine = sample.engine
        if self._busy_at is None or engine is None or (engine.running or 0) + (engine.waiting or 0) > 0:
            self._busy_at = sample.at
        if engine is None:
            self._epoch = None
            return Conditions(None, sample.at - self._busy_at)
        if engine.epoch != self._epoch:
            self._epoch, self._since = engine.epoch, sample.at
        up_s = engine.up_s if engine.up_s is not None else sample.at - self._since
        return Conditions(up_s, sample.at - self._busy_at)


def replay(samples: Iterable[Sample], sensitivity: Sensitivity | None = None) -> Iterator[Event]:
    """What would have been seen and decided. Nothing is carried out, so a decision changes nothing that follows."""
    panel, quiet, state = Panel(sensitivity), Quiet(), State()
    levels: dict[DetectorName, Level] = {}
    for sample in samples:
        verdicts = panel.update(sample)
        for verdict in verdicts:
            if levels.get(verdict.detector, Level.OK) is not verdict.level:
                yield Event(sample.at, sample.wall, verdict=verdict)
            levels[verdict.detector] = verdict.level
        state, decisions = decide(state, verdicts, quiet.conditions(sample), sample.at)
        for decision in decisions:
            yield Event(sample.at, sample.wall, decision=decision)

"""The watchdog watching: a sample every second, judged by the detectors, decided upon, acted upon and written down."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from . import policy
from .decisions import Conditions, Decision
from .effects import Effects
from .incidents import Incidents, evidence
from .journal.history import History
from .journal.journal import Journal
from .journal.records import Interval, SampleRecord, VerdictRecord
from .journal.ribbon import Piece, ribbon
from .journal.uptime import TREE, spells
from .panel import Panel
from .past import Look
from .samples import Sample, encode
from .sensors.sampler import Sampler
from .supervisor import State
from .verdicts import Level, Verdict
from .watch_metrics import WatchMetrics

KEPT_SAMPLES = 120
EXTEND_EVERY = 5
"""Samples between two notes that every child's state still lasts."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Parts:
    """What an observation is made of."""

    sampler: Sampler
    panel: Panel
    effects: Effects
    incidents: Incidents
    journal: Journal
    history: History
    metrics: WatchMetrics
    canaries_under_way: Callable[[], int]


class Observation:
    """Run `run` as a task for as long as the tree lives."""

    def __init__(self, parts: Parts, period_s: float, speed: float) -> None:
        """`speed` is how many seconds pass for detectors and policy in one of ours."""
        self._parts = parts
        self._period_s = period_s
        self._speed = speed
        self._state = policy.State()
        self._levels: dict[str, Level] = {}
        self._busy_at = time.monotonic()
        self._count = 0
        self._latest: deque[Sample] = deque(maxlen=KEPT_SAMPLES)
        self.look: Look | None = None
        """None before the first."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The last ones, oldest first."""
        return tuple(self._latest)

    @property
    def quiet_s(self) -> float:
        """How long no request but canaries has been in the engine."""
        return time.monotonic() - self._busy_at

    async def run(self) -> None:
        """One look a period; a look that fails costs that look alone. Ends only by cancellation."""
        try:
            while True:
                began = time.monotonic()
                try:
                    self._look(await self._parts.sampler.sample())
                except Exception:
                    log.exception("look_failed")
                await asyncio.sleep(max(0.0, self._period_s - (time.monotonic() - began)))
        finally:
            await self._parts.sampler.close()
            await self._parts.effects.close()

    def _look(self, sample: Sample) -> None:
        parts = self._parts
        self._latest.append(sample)
        parts.journal.put(SampleRecord(sample.wall, encode(sample).decode()))
        self._count += 1
        if self._count % EXTEND_EVERY == 0:
            parts.history.extend()
        verdicts = parts.panel.update(sample)
        self.look = Look(sample, verdicts)
        self._write_down(verdicts, sample)
        parts.incidents.judge(verdicts, sample.at)
        parts.metrics.show(sample, verdicts)
        parts.effects.remind()
        for decision in self._decide(verdicts, sample):
            parts.effects.carry_out(decision, parts.incidents.of(decision.detector))

    def _decide(self, verdicts: tuple[Verdict, ...], sample: Sample) -> list[Decision]:
        up_s = None if sample.engine is None else sample.engine.up_s
        conditions = Conditions(
            engine_up_s=None if up_s is None else up_s * self._speed, quiet_s=self._quiet_at(sample) * self._speed
        )
        self._state, decisions = policy.decide(self._state, verdicts, conditions, sample.at * self._speed)
        return decisions

    def _quiet_at(self, sample: Sample) -> float:
        """How long no request but canaries has been in the engine."""
        engine = sample.engine
        in_engine = 0 if engine is None else (engine.running or 0) + (engine.waiting or 0)
        if in_engine > self._parts.canaries_under_way():
            self._busy_at = sample.at
        return sample.at - self._busy_at

    def _write_down(self, verdicts: tuple[Verdict, ...], sample: Sample) -> None:
        """Verdicts whose level has changed."""
        for verdict in verdicts:
            if self._levels.get(verdict.detector, Level.OK) is verdict.level:
                continue
            self._levels[verdict.detector] = verdict.level
            log.info("verdict", detector=verdict.detector, level=verdict.level, sentence=verdict.sentence)
            record = VerdictRecord(
                sample.wall, verdict.detector.value, verdict.level.value, verdict.sentence, evidence(verdict)
            )
            self._parts.journal.put(record)

    async def spells(self, window_s: float) -> list[Interval]:
        """What the tree was in the last so many seconds."""
        self._parts.history.extend()
        now = time.time()
        return spells(await self._parts.journal.intervals(TREE, now - window_s), now - window_s, now)

    async def ribbon(self, window_s: float, pieces: int, engine: str) -> list[Piece]:
        """The last so many seconds in pieces; `engine` is the child whose starts are counted."""
        found, now = await self.spells(window_s), time.time()
        states = await self._parts.journal.intervals(engine, now - window_s)
        starts = [interval.since for interval in states if interval.state == State.STARTING.value]
        return ribbon(found, starts, now - window_s, now, pieces)

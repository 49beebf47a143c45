"""What the tree needs to be watched, joined: the journal and who writes it, the sensors, the canary, the schedule.

Made in two steps, because supervisors tell their history from their first moment on, and what acts upon them can only
be made once they are there.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

import aiohttp
from prometheus_client import CollectorRegistry

from ..alerts.delivery import Telling
from ..config import Paths, Watchdog
from .canary import Canary
from .death_incidents import DeathIncidents
from .decisions import Child
from .effects import Effects, Reach
from .engine_role import EngineRole
from .incidents import ENGINE_DEATH, JOURNAL, SERVICE_DEATH, Incidents
from .journal.history import History, Identity
from .journal.journal import Journal, Retention
from .journal.records import Incident, Interval
from .journal.ribbon import Piece
from .journal.shelf import JournalShelf
from .journal.uptime import total
from .observation import Observation, Parts
from .panel import Panel, Sensitivity
from .past import Look, Past
from .samples import Sample
from .schedule import scheduled
from .sensors.sampler import Sampler, Situation
from .sensors.sensors import host_sensor, process_sensor
from .sensors.service import ServiceSensor
from .supervisor import Observer
from .telling import Appoint, edge_of
from .watch_metrics import WatchMetrics

CLOSES_AFTER_S = 60.0


class Records:
    """What is written down, from the tree's first moment on."""

    def __init__(self, settings: Watchdog, paths: Paths, registry: CollectorRegistry, appoint: Appoint) -> None:
        """`appoint` makes the courier, who keeps what it tells in the journal."""
        url = settings.journal.url or paths.journal_url
        retention = Retention(settings.journal.full_samples_s, settings.journal.keep_s)
        self.journal = Journal(url, retention, self)
        self.history = History(self.journal.put, time.time)
        self.metrics = WatchMetrics(registry, lambda: self.journal.dropped)
        closes_after_s = CLOSES_AFTER_S / settings.detection_speed
        self.courier = appoint(JournalShelf(self.journal), self.metrics)
        self.incidents = Incidents(self._incident, self.metrics, time.time, closes_after_s)

    def engine(self, child: str, identity: Callable[[], Identity], also: Observer) -> Observer:
        """The observer of an engine's supervisor; what it hears, it tells `also`."""
        return self.history.of(child, identity, DeathIncidents(ENGINE_DEATH, self.incidents, also))

    def service(self, child: str, identity: Callable[[], Identity], also: Observer) -> Observer:
        """The same of the service's."""
        return self.history.of(child, identity, DeathIncidents(SERVICE_DEATH, self.incidents, also))

    def _incident(self, incident: Incident) -> None:
        self.journal.put(incident)
        self.courier.tell(edge_of(incident))

    def journal_failed(self, sentence: str) -> None:
        self.incidents.begin(JOURNAL, sentence)

    def journal_recovered(self) -> None:
        self.incidents.end(JOURNAL)


class Watching:
    """Everything that looks and acts. Run `run` as a task for as long as the tree lives."""

    def __init__(
        self,
        *,
        settings: Watchdog,
        paths: Paths,
        records: Records,
        reach: Reach,
        engine: EngineRole,
        service_url: Callable[[], str],
        admin_token: str,
        http: aiohttp.ClientSession,
    ) -> None:
        self._settings = settings
        self._journal = records.journal
        self._courier = records.courier
        self._reach = reach
        self._engine = engine
        self._canary = Canary(service_url, admin_token, http, records.metrics, settings.canary.deadline_s)
        sampler = Sampler(
            host_sensor(paths.home, settings.sensors),
            process_sensor(settings.sensors),
            ServiceSensor(service_url, admin_token, http),
            os.getpid(),
            self._situation,
        )
        parts = Parts(
            sampler=sampler,
            panel=Panel(Sensitivity(settings.detection_speed, settings.pool_floor_bytes, settings.shedding)),
            effects=Effects(reach, records.journal.put, records.metrics.acted),
            incidents=records.incidents,
            journal=records.journal,
            history=records.history,
            metrics=records.metrics,
            canaries_under_way=lambda: self._canary.under_way,
        )
        self.observation = Observation(parts, settings.sample_s, settings.detection_speed)

    @property
    def samples(self) -> tuple[Sample, ...]:
        return self.observation.samples

    @property
    def look(self) -> Look | None:
        return self.observation.look

    async def ribbon(self, window_s: float, pieces: int) -> list[Piece]:
        return await self.observation.ribbon(window_s, pieces, self._engine.name)

    async def history(self, window_s: float) -> Past:
        return Past(await self._journal.incidents(time.time() - window_s), total(await self.spells(window_s)))

    async def spells(self, window_s: float) -> list[Interval]:
        return await self.observation.spells(window_s)

    def telling(self) -> Telling:
        return self._courier.snapshot()

    async def run(self) -> None:
        """Look, judge, act, tell, and send canaries; ends only by cancellation."""
        with scheduled(self._settings.canary, self._canary, self._journal):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._courier.run())
                tasks.create_task(self.observation.run())

    def _situation(self) -> Situation:
        engine = self._engine
        supervised = self._reach.supervisors[Child.ENGINE].snapshot()
        ready_since = engine.ready_since
        return Situation(
            engine_epoch=engine.epoch,
            engine_pid=supervised.pid,
            engine_up_s=None if ready_since is None else time.monotonic() - ready_since,
            step_bound_s=None if engine.step_bound_s is None else engine.step_bound_s * self._settings.detection_speed,
            heartbeat=engine.heartbeat,
            service_pid=self._reach.supervisors[Child.SERVICE].snapshot().pid,
            engine_deaths=supervised.unwanted_deaths,
            canary=self._canary.latest,
        )

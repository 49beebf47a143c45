"""The whole tree as a story: the children start, everything becomes ready, a signal comes, the children end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
import msgspec
import structlog

from .. import __version__
from ..alerts import quiet
from ..config import EngineEndpoint, EngineProcess
from ..engine import blas, models
from ..engine.protocol import Reclaimed
from .api import WatchdogApi
from .decisions import Child
from .door import Premises
from .effects import Reach
from .engine_role import EngineRole
from .errors import ChildUnusable
from .home import Serving, admin_token, serving_path, write_private
from .journal.history import Identity
from .log_output import LogOutput
from .metrics import WatchdogMetrics
from .notify import Notifier
from .service_role import ServiceRole
from .shed_level import ShedLevel
from .soak_news import SoakNews
from .soaks import Soaks
from .status import Status, engine_status, service_status
from .supervisor import Deadlines, State, Supervisor, running
from .telling import courier_for
from .watching import Records, Watching

ENGINE_NAME = "default"
LOADED_BYTES_PER_S = 50e6
"""A model is loaded at this rate at least, even from a slow external disk."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class SupervisedEngine:
    """An engine's role and who plays it."""

    role: EngineRole
    supervisor: Supervisor


async def serve(
    premises: Premises, output: LogOutput, on_ready: Callable[[Serving], None], notify_socket: str | None
) -> None:
    """Run the tree until SIGTERM or SIGINT. `on_ready` is called once, when the first request can be answered.

    `notify_socket` is where systemd listens, if it does.

    Raises `ChildUnusable` when a child says before that moment that no restart will help it, and `AlertsError` when a
    webhook's target cannot be used.
    """
    async with aiohttp.ClientSession() as http:
        failure = await Tree(premises, http, output, Notifier(notify_socket)).run(on_ready)
    if failure is not None:
        raise ChildUnusable(failure)


class Tree:
    """Every supervisor, and what they share."""

    def __init__(
        self, premises: Premises, http: aiohttp.ClientSession, output: LogOutput, init_system: Notifier
    ) -> None:
        self._premises = premises
        self._init_system = init_system
        self._started_at = datetime.now(UTC)
        self._stop = asyncio.Event()
        metrics = WatchdogMetrics()
        settings = premises.config.watchdog
        start_s, stop_s = settings.start_deadline_s, settings.stop_deadline_s
        engine = _engine_role(premises)
        patient = Deadlines(start_s + _weights_bytes(premises) / LOADED_BYTES_PER_S, stop_s)
        appoint = courier_for(premises.config.alerts, premises.paths, premises.watchdog.url, http)
        self._records = records = Records(settings, premises.paths, metrics.registry, appoint)
        counted = records.engine(engine.name, self._engine_identity, metrics.engine(premises.model_name))
        self._engines = {
            ENGINE_NAME: SupervisedEngine(engine, Supervisor(engine, settings, patient, counted, output.child_line))
        }
        token = admin_token(premises.paths)
        self._service = _service_role(premises, token, http)
        drain_s = premises.config.server.drain_deadline_s
        counted = records.service(self._service.name, self._service_identity, metrics.service())
        self._service_supervisor = Supervisor(
            self._service, settings, Deadlines(start_s, drain_s + stop_s), counted, output.child_line
        )
        self._shed = ShedLevel(self._service_supervisor, lambda: self._service.url, token, http, metrics.shed_level.set)
        self._supervisors = [self._service_supervisor, *(engine.supervisor for engine in self._engines.values())]
        children = {Child.ENGINE: self._engines[ENGINE_NAME].supervisor, Child.SERVICE: self._service_supervisor}
        reach = Reach(engine, children, self._shed, premises.config.engine)
        self._watching = Watching(
            settings=settings,
            paths=premises.paths,
            records=records,
            reach=reach,
            engine=engine,
            service_url=lambda: self._service.url,
            admin_token=token,
            http=http,
        )
        self._soaks = Soaks(premises.config, premises.paths, records)
        self._api = WatchdogApi(self, self._watching, metrics.registry, token)

    async def run(self, on_ready: Callable[[Serving], None]) -> str | None:
        """Start, serve, stop; returns why it could not even start, or None."""
        self._hear_signals()
        async with self._reachable() as serving, asyncio.TaskGroup() as tasks:
            attending = [tasks.create_task(engine.role.listen()) for engine in self._engines.values()]
            attending += [tasks.create_task(self._shed.run()), tasks.create_task(self._watching.run())]
            attending.append(tasks.create_task(self._soaks.run()))
            tasks.create_task(self._records.journal.run())
            for supervisor in self._supervisors:
                tasks.create_task(supervisor.run())
            failure = await self._started_or_stopped()
            if failure is None and not self._stop.is_set():
                on_ready(serving)
                async with self._init_system.serving(f"{self._premises.model_name} at {serving.api}"):
                    await self._stop.wait()
            await self._shut_down()
            for task in attending:
                task.cancel()
            self._records.journal.stop()
        return failure

    async def status(self) -> Status:
        service_ready = await self._service_takes_requests()
        engines = tuple(engine_status(engine.role, engine.supervisor.snapshot()) for engine in self._engines.values())
        service = service_status(self._service.url, self._service_supervisor.snapshot())
        states = {service.state, *(engine.state for engine in engines)}
        return Status(
            ready=service_ready and states == {State.READY},
            version=__version__,
            home=str(self._premises.paths.home),
            started_at=self._started_at,
            engines=engines,
            service=service,
            shed=self._shed.wanted,
            quiet_s=self._watching.observation.quiet_s,
        )

    def _engine_identity(self) -> Identity:
        engine = self._engines[ENGINE_NAME]
        return Identity(engine.supervisor.snapshot().pid, engine.role.epoch)

    def _service_identity(self) -> Identity:
        return Identity(self._service_supervisor.snapshot().pid)

    async def _service_takes_requests(self) -> bool:
        """Ask it, but not once it has died: nobody answers in the queue of a socket that waits for the next one."""
        gone = self._service_supervisor.until(*set(State) - {State.READY})
        async with running(self._service.takes_requests(), gone) as (answer, left):
            await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
            return answer.done() and bool(await answer)

    def hear_soak(self, news: SoakNews) -> None:
        self._soaks.hear(news)

    def restart_engine(self, name: str) -> int:
        engine = self._engines[name]
        engine.supervisor.restart()
        return engine.role.epoch

    def drain_engine(self, name: str, drained: bool) -> None:
        if name not in self._engines:
            raise KeyError(name)
        if drained:
            self._shed.drain(f"the engine {name} is drained; `stoker engine resume {name}` ends that")
        else:
            self._shed.resume()

    def silence(self, lasting_s: float, reason: str) -> None:
        quiet.write(self._premises.paths.quiet, quiet.Silence(time.time() + lasting_s, reason))

    async def reclaim_engine(self, name: str, level: int) -> Reclaimed:
        return await self._engines[name].role.reclaim(level)

    @contextlib.asynccontextmanager
    async def _reachable(self) -> AsyncIterator[Serving]:
        """Answer on the watchdog's port, and let commands know where that is."""
        paths = self._premises.paths
        serving = Serving(os.getpid(), self._premises.api.url, self._premises.watchdog.url)
        async with self._api.serving(self._premises.watchdog.open()):
            write_private(serving_path(paths), msgspec.json.encode(serving))
            try:
                yield serving
            finally:
                serving_path(paths).unlink(missing_ok=True)

    def _hear_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop_signal, number)
        # A terminal that closes must not end a server that is to run for days.
        loop.add_signal_handler(signal.SIGHUP, lambda: log.info("hangup_ignored"))

    def _on_stop_signal(self, number: signal.Signals) -> None:
        if not self._stop.is_set():
            log.info("stopping", signal=number.name)
            self._stop.set()
            return
        log.warning("stopping_now", signal=number.name)
        for supervisor in self._supervisors:
            supervisor.hasten()

    async def _started_or_stopped(self) -> str | None:
        """Returns when the tree can answer, when it is to stop, or with the sentence of a child that cannot run."""
        failed = (supervisor.until(State.FAILED) for supervisor in self._supervisors)
        async with running(self._until_ready(), self._stop.wait(), *failed) as tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        children = [supervisor.snapshot() for supervisor in self._supervisors]
        return next((child.failure for child in children if child.state is State.FAILED), None)

    async def _until_ready(self) -> None:
        await asyncio.gather(*(supervisor.until(State.READY) for supervisor in self._supervisors))
        await self._service.takes_requests_soon()

    async def _shut_down(self) -> None:
        """The service first, so that its streams can finish on the engine; then the engines."""
        self._records.history.switched_off()
        self._service_supervisor.stop()
        await self._service_supervisor.until(State.STOPPED)
        self._premises.api.close()
        engines = [engine.supervisor for engine in self._engines.values()]
        for supervisor in engines:
            supervisor.stop()
        await asyncio.gather(*(supervisor.until(State.STOPPED) for supervisor in engines))
        for engine in self._engines.values():
            engine.role.clear_away()


def _engine_role(premises: Premises) -> EngineRole:
    template = EngineProcess(
        name=ENGINE_NAME,
        model_name=premises.model_name,
        model_path=premises.model_path,
        draft_model_path=premises.draft_model_path,
        socket=premises.paths.socket(ENGINE_NAME),
        kv_path=premises.paths.kv(ENGINE_NAME),
        epoch=0,
        engine=premises.config.engine,
    )
    return EngineRole(
        paths=premises.paths,
        template=template,
        watchdog=premises.config.watchdog,
        environment=blas.preload_environment(os.environ),
        pass_fds=(premises.lock,),
    )


def _weights_bytes(premises: Premises) -> int:
    """What an engine has to load; the simulated one has nothing."""
    folders = (premises.model_path, premises.draft_model_path)
    return sum(models.check(folder).bytes for folder in folders if folder is not None)


def _service_role(premises: Premises, admin_token: str, http: aiohttp.ClientSession) -> ServiceRole:
    engine = EngineEndpoint(
        name=ENGINE_NAME,
        model_name=premises.model_name,
        model_path=premises.model_path,
        socket=premises.paths.socket(ENGINE_NAME),
        context_tokens=premises.config.engine.context_tokens,
    )
    server = premises.config.server
    return ServiceRole(
        paths=premises.paths,
        server=server,
        telemetry=premises.config.telemetry,
        watchdog_url=premises.watchdog.url,
        engine=engine,
        listening=premises.api,
        stall_after_s=premises.config.watchdog.stall_after_s,
        admin_token=admin_token,
        http=http,
        environment=os.environ,
        pass_fds=(premises.lock,),
    )

"""The process of a soak run on this machine's tree: alone on its home, stopped by signals, gone on with by the next."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime

import msgspec
from pydantic import ValidationError

from ..config import Gates, Paths, SoakProcess
from ..watchdog.client import WatchdogClient
from .acts import ActsHere
from .asking import Asking
from .chaos import Rule
from .collector import Collector, collector_for
from .errors import AlreadyRunning, BadPlan, NoSuchRun
from .intervals import Interval
from .keeping import LEFT_OUT, STOPPED, Keeping, Run
from .plan import Plan
from .run import End, Parts, Progress, Soak, judged
from .target import Target
from .tree import RunningTree

QUIET_POLL_S = 5.0
READY_POLL_S = 0.2
NICENESS = 10
BATCH = {"x-stoker-priority": "batch"}


class Wish(msgspec.Struct, frozen=True):
    """What a person or a schedule asks for; `gates` and `model` are the tree's to say."""

    duration_s: float
    workload: str
    scale: float = 1.0
    seed: int = 1
    streams: int | None = None
    chaos: tuple[Rule, ...] = ()
    scheduled: bool = False
    even_when_busy: bool = False


@contextlib.contextmanager
def alone(paths: Paths) -> Iterator[None]:
    """Hold the home's soak lock. Raises `AlreadyRunning`."""
    lock = os.open(paths.run / "soak.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                "a soak run is under way on this $STOKER_HOME; `stoker soak list` shows it, Ctrl-C or SIGINT ends it"
            ) from None
        yield
    finally:
        os.close(lock)


def settings_of(paths: Paths) -> SoakProcess:
    """What the running tree says. Raises `BadPlan`."""
    try:
        return SoakProcess.model_validate_json(paths.child_settings("soak").read_bytes())
    except (OSError, ValidationError) as error:
        raise BadPlan(f"the tree on {paths.home} is of another version; restart `stoker serve`") from error


class Runner:
    """Everything that a run's process needs. Raises `NotRunning` when there is no tree."""

    def __init__(self, paths: Paths, key: str | None, on_progress: Callable[[Progress], None]) -> None:
        self._paths = paths
        self._client = WatchdogClient(paths)
        self._settings = settings_of(paths)
        self._tree = RunningTree(paths)
        self._keeping = Keeping(self._settings.journal_url)
        self._on_progress = on_progress
        if key is None and self._settings.needs_key:
            key = paths.admin_token.read_text(encoding="ascii").strip()
        self._key = key

    async def begin(self, wish: Wish) -> tuple[Run, list[Interval]]:
        """A new run, from its beginning. One that was never finished is over now."""
        async with contextlib.aclosing(self._keeping):
            if wish.scheduled:
                os.nice(NICENESS)
            plan = self._plan(wish)
            if wish.scheduled and not wish.even_when_busy and not await self._quiet():
                return await self._left_out(plan), []
            await self._finish_what_was_left()
            return await self._live(Run(_new_id(), time.time(), plan), [])

    async def resume(self) -> tuple[Run, list[Interval]]:
        """The run that was cut. Raises `NoSuchRun`."""
        async with contextlib.aclosing(self._keeping):
            run = await self._keeping.unfinished()
            if run is None:
                raise NoSuchRun("every soak run is over; begin one with `stoker soak run`")
            return await self._live(run, await self._keeping.intervals(run.id))

    def _plan(self, wish: Wish) -> Plan:
        gates: Gates = self._settings.soak.gates
        return Plan(
            duration_s=wish.duration_s,
            workload=wish.workload,
            scale=wish.scale,
            seed=wish.seed,
            chaos=wish.chaos,
            gates=gates.model_dump(),
            model=self._client.status().engines[0].model,
            streams=wish.streams,
        )

    async def _live(self, run: Run, history: list[Interval]) -> tuple[Run, list[Interval]]:
        await self._ready()
        target = Target(self._client.serving.api, run.plan.model, seeds=True, key=self._key, headers=BATCH)
        collector = collector_for(self._settings.telemetry) if _wants_collector(run.plan) else None
        acts = ActsHere(self._tree, self._paths, collector)
        acts.refuse_impossible(run.plan.chaos)
        parts = Parts(self._tree, Asking(target, run.plan), acts, self._keeping, self._on_progress)
        soak = Soak(run, history, parts)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, soak.end, End.STOPPED)
        loop.add_signal_handler(signal.SIGTERM, soak.end, End.PAUSED)
        async with _serving(collector):
            return await soak.run(), soak.history

    async def _finish_what_was_left(self) -> None:
        while (run := await self._keeping.unfinished()) is not None:
            intervals = await self._keeping.intervals(run.id)
            result = judged(run, intervals) if intervals else None
            ended_at = intervals[-1].until if intervals else run.began_at
            await self._keeping.save(msgspec.structs.replace(run, state=STOPPED, ended_at=ended_at, result=result))

    async def _ready(self) -> None:
        """A run that goes on after everything was killed is begun before the model is loaded."""
        while (status := await self._tree.status()) is None or not status.ready:  # noqa: ASYNC110  # another process
            await asyncio.sleep(READY_POLL_S)

    async def _quiet(self) -> bool:
        """Wait until nobody is served; False when that took too long."""
        gives_up = time.monotonic() + self._settings.soak.postpone_s
        while time.monotonic() < gives_up:
            status = await self._tree.status()
            if status is not None and status.quiet_s >= self._settings.soak.quiet_s:
                return True
            await asyncio.sleep(QUIET_POLL_S)
        return False

    async def _left_out(self, plan: Plan) -> Run:
        now = time.time()
        run = Run(_new_id(), now, plan, LEFT_OUT, ended_at=now)
        await self._keeping.save(run)
        return run


def _wants_collector(plan: Plan) -> bool:
    return any(rule.kind == "collector_down" for rule in plan.chaos)


@contextlib.asynccontextmanager
async def _serving(collector: Collector | None) -> AsyncIterator[None]:
    if collector is None:
        yield
        return
    try:
        serving = collector.serving()
        await serving.__aenter__()
    except OSError as error:
        raise BadPlan(f"a collector of traces runs here already, which this run cannot take down: {error}") from error
    try:
        yield
    finally:
        await serving.__aexit__(None, None, None)


def _new_id() -> str:
    """Sorts by time, and is not the same on two machines that share a database."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"

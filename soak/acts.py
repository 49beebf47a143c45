"""Acts of chaos on the tree that runs here, and how long it took to get over each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

import psutil

from ..config import Paths
from ..watchdog.status import EngineStatus, Status
from .chaos import Rule
from .collector import Collector
from .errors import BadPlan
from .intervals import Act
from .tree import Tree

POLL_S = 0.1
LASTS_S = 20.0
"""How long a disk stays full and a collector down."""


class Acts(Protocol):
    """Who does what a plan says."""

    async def do(self, kind: str, within_s: float) -> Act:
        """Returns when the tree is over it, or after `within_s`."""


class ActsHere:
    """On processes of this machine. `collector` is what stands for a collector of traces, if there is one."""

    def __init__(self, tree: Tree, paths: Paths, collector: Collector | None) -> None:
        self._tree = tree
        self._paths = paths
        self._collector = collector

    def refuse_impossible(self, rules: Iterable[Rule]) -> None:
        """Before the run. Raises `BadPlan`."""
        for kind in {rule.kind for rule in rules}:
            if (why := self._impossible(kind)) is not None:
                raise BadPlan(f"chaos `{kind}` cannot be done here: {why}")

    def _impossible(self, kind: str) -> str | None:
        if kind == "leak" and not self._leaks_when_told():
            return 'the engine has no fault `{ kind = "leak", on_signal = true }` in its `faults`'
        if kind == "disk_full" and not hasattr(psutil.Process, "rlimit"):
            return f"{sys.platform} cannot bound the files of another process"
        if kind == "collector_down" and self._collector is None:
            return "`telemetry.otlp_endpoint` is no free port of this machine on which a run could be the collector"
        return None

    def _leaks_when_told(self) -> bool:
        try:
            engine = json.loads(self._paths.child_settings("engine-default").read_bytes())["engine"]
        except (OSError, ValueError, KeyError):
            return False
        faults = engine["simulated"]["faults"] if engine["kind"] == "simulated" else engine["faults"]
        return any(fault["kind"] == "leak" and fault["on_signal"] for fault in faults)

    async def do(self, kind: str, within_s: float) -> Act:
        engine = await self._ready_engine(within_s)
        if engine is None or engine.pid is None:
            return Act(kind, time.time(), note="the engine was not ready, so nothing was done")
        match kind:
            case "kill":
                return await self._signalled(kind, signal.SIGKILL, engine, within_s)
            case "stop":
                return await self._signalled(kind, signal.SIGSTOP, engine, within_s)
            case "leak":
                at = time.time()
                _signal(engine.pid, signal.SIGUSR2)
                return Act(kind, at, note=f"engine {engine.epoch} leaks until another takes its place")
            case "disk_full":
                return await self._lasting(kind, _no_room_for(engine.pid), within_s)
            case "collector_down":
                assert self._collector is not None
                return await self._lasting(kind, self._collector.down(), within_s)
            case _:
                raise AssertionError(f"no act of chaos is called {kind}")

    async def _signalled(self, kind: str, number: signal.Signals, engine: EngineStatus, within_s: float) -> Act:
        assert engine.pid is not None
        at = time.time()
        _signal(engine.pid, number)

        def replaced(status: Status) -> bool:
            now = status.engine(engine.name)
            return status.ready and now is not None and now.epoch > engine.epoch

        return await self._over(Act(kind, at, over_at=at), replaced, within_s)

    async def _lasting(self, kind: str, trouble: contextlib.AbstractAsyncContextManager[None], within_s: float) -> Act:
        at = time.time()
        async with trouble:
            await asyncio.sleep(LASTS_S)
        return await self._over(Act(kind, at, over_at=time.time()), lambda status: status.ready, within_s)

    async def _over(self, act: Act, well: Callable[[Status], bool], within_s: float) -> Act:
        assert act.over_at is not None
        while time.time() - act.over_at < within_s:
            status = await self._tree.status()
            if status is not None and well(status):
                return Act(act.kind, act.at, act.over_at, time.time())
            await asyncio.sleep(POLL_S)
        return Act(act.kind, act.at, act.over_at, note=f"after `{act.kind}` the tree was not ready again")

    async def _ready_engine(self, within_s: float) -> EngineStatus | None:
        began = time.monotonic()
        while time.monotonic() - began < within_s:
            status = await self._tree.status()
            if status is not None and status.ready:
                return status.engines[0]
            await asyncio.sleep(POLL_S)
        return None


def _signal(pid: int, number: signal.Signals) -> None:
    # It may have ended by itself a moment ago, which is what the tree gets over then.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@contextlib.asynccontextmanager
async def _no_room_for(pid: int) -> AsyncIterator[None]:
    """Every write of the process into a file fails, as on a full disk. Its hard limit stays, so that this can end."""
    try:
        process = psutil.Process(pid)
        before = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (0, before[1]))
    except psutil.NoSuchProcess:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.rlimit(psutil.RLIMIT_FSIZE, before)

"""What decisions do: through supervisors, the engine's words and the service's shed level, each with a deadline.

Nothing here waits for anything else: an effect is a task of its own, and what became of it is written down.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from ..config import Engine as EngineSettings
from ..engine import protocol
from ..engine.errors import EngineUnavailable
from .decisions import (
    Action,
    Child,
    CloseCircuit,
    Decision,
    EmptyPrefixCache,
    Observe,
    OpenCircuit,
    PlannedRestart,
    Reclaim,
    RestartNow,
    Shed,
    Tighten,
)
from .journal.records import ActionRecord, Record
from .supervisor import State, Supervisor

RESTART_DEADLINE_S = 600.0
LEAST_CHUNK_TOKENS = 16
MB = 1e6

log = structlog.get_logger(__name__)


class Engine(Protocol):
    """The engine, as far as it can be told to do something."""

    @property
    def epoch(self) -> int:
        """Its incarnation."""

    @property
    def hears(self) -> bool:
        """Whether it is there to be told."""

    async def reclaim(self, level: int) -> protocol.Reclaimed:
        """Have it give memory back. Raises `EngineUnavailable`."""

    def tighten(self, limits: protocol.Tighten) -> bool:
        """Bound what it does at once; False when it cannot hear that now."""

    def forget_kv(self) -> None:
        """The next incarnation begins without any KV of earlier ones."""


class Door(Protocol):
    """Where load is turned away."""

    def want(self, level: int, reason: str) -> None:
        """Turn so much away."""


@dataclass(frozen=True)
class Reach:
    """What can be acted upon."""

    engine: Engine
    supervisors: dict[Child, Supervisor]
    shed: Door
    settings: EngineSettings


class Effects:
    """Carries decisions out. Use it as an asynchronous context: what is under way at its end is dropped."""

    def __init__(self, reach: Reach, put: Callable[[Record], None], on_action: Callable[[str], None]) -> None:
        """`on_action` hears the kind of each action, for the metrics."""
        self._reach = reach
        self._put = put
        self._on_action = on_action
        self._tasks: set[asyncio.Task[None]] = set()
        self._tighten = 0
        self._tightened_epoch: int | None = None

    def carry_out(self, decision: Decision, incident: str | None) -> None:
        """Begin; returns at once."""
        kind = type(decision.action).__name__
        log.warning("decided", action=kind, why=decision.sentence)
        self._on_action(kind)
        record = ActionRecord(uuid.uuid4().hex, time.time(), kind, decision.sentence, incident)
        self._put(record)
        task = asyncio.create_task(self._act(decision, record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def remind(self) -> None:
        """Tell an engine that was started since what holds for it; called with every sample."""
        engine = self._reach.engine
        if self._tighten and engine.hears and engine.epoch != self._tightened_epoch:
            self._tell_to_tighten()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _act(self, decision: Decision, record: ActionRecord) -> None:
        try:
            outcome = await self._do(decision.action, decision.found)
        except TimeoutError:
            outcome = "not done within its deadline"
        except EngineUnavailable as error:
            outcome = f"not done: {error}"
        except Exception as error:
            log.exception("effect_failed", action=record.kind)
            outcome = f"failed: {type(error).__name__}: {error}"
        log.info("effect", action=record.kind, outcome=outcome)
        self._put(msgspec.structs.replace(record, ended_at=time.time(), outcome=outcome))

    async def _do(self, action: Action, found: str) -> str:
        match action:
            case Reclaim(level=level):
                return await self._reclaim(level)
            case Tighten(level=level):
                self._tighten = level
                return self._tell_to_tighten()
            case Shed(level=level):
                self._reach.shed.want(level, found)
                return f"the service is told level {level}"
            case PlannedRestart(child=child) | RestartNow(child=child):
                return await self._restart(child)
            case EmptyPrefixCache():
                # Rows under way may hold wrong KV too, so it is more than the cache that has to go.
                self._reach.engine.forget_kv()
                return await self._restart(Child.ENGINE)
            case Observe() | OpenCircuit() | CloseCircuit():
                return "written down"

    async def _reclaim(self, level: int) -> str:
        done = await self._reach.engine.reclaim(level)
        return f"{done.freed_bytes / MB:.1f} MB were given back"

    def _tell_to_tighten(self) -> str:
        settings, level = self._reach.settings, self._tighten
        limits = protocol.Tighten(
            max_running=max(1, settings.max_running // 2) if level >= 2 else None,
            chunk_tokens=max(LEAST_CHUNK_TOKENS, settings.prefill_chunk // 4) if level >= 1 else None,
            speculate=level == 0,
        )
        told = self._reach.engine.tighten(limits)
        if told:
            self._tightened_epoch = self._reach.engine.epoch
        return "the engine is told" if told else "the engine is told as soon as it is ready"

    async def _restart(self, child: Child) -> str:
        supervisor = self._reach.supervisors[child]
        began = time.monotonic()
        async with asyncio.timeout(RESTART_DEADLINE_S):
            # Its end may be under way already; what counts is the next time that it is ready.
            gone = asyncio.create_task(supervisor.until(*set(State) - {State.READY}))
            try:
                supervisor.restart()
                await gone
            finally:
                gone.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await gone
            state = await supervisor.until(State.READY, State.FAILED, State.CIRCUIT_OPEN, State.STOPPED)
        took_s = time.monotonic() - began
        return f"{child.value} was {state.value} again after {took_s:.1f} s"

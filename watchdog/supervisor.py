"""The state machine of one child, and its only writer: start it, know when it is ready, start it again when it ends.

`run` is the one task that moves the state; everybody else asks (`restart`, `stop`, `hasten`) or reads (`snapshot`,
`until`). What differs between an engine and the service is behind `Role`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Protocol

import structlog

from ..config import Watchdog
from . import stacks
from .child import Child, Launch, exit_in_words
from .death import Cause, Death
from .errors import WatchdogError
from .restart import Past, decide

KEPT_DEATHS = 10
RELEASED_BYTES_PER_S = 4e9
"""A process that ends gives its memory back at this rate at least, and must not be killed while it does."""
STALLED_GRACE_S = 2.0
"""A process that does nothing seldom hears SIGTERM; this is for one that was only too slow."""

log = structlog.get_logger(__name__)


class State(StrEnum):
    """Where a child is in its life."""

    STARTING = "starting"
    READY = "ready"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    STOPPED = "stopped"
    CIRCUIT_OPEN = "circuit_open"
    FAILED = "failed"


@dataclass(frozen=True)
class Snapshot:
    """What a supervisor says about its child."""

    state: State
    pid: int | None
    restarts: int
    deaths: tuple[Death, ...]
    """The last ones, oldest first."""
    failure: str | None
    """Why the child stays away, as one sentence; None when it does not."""
    unwanted_deaths: int = 0
    """In all; a restart that somebody asked for is none."""


@dataclass(frozen=True)
class Deadlines:
    """How many seconds a child may take until it is ready, and from SIGTERM to its end; what its memory takes to be
    given back comes on top of the latter."""

    start_s: float
    stop_s: float


class Role(Protocol):
    """What one kind of child needs from its watchdog."""

    @property
    def name(self) -> str:
        """The child's name in logs and files."""

    def launch(self) -> Launch:
        """Make ready for one more incarnation. Raises `OSError` or `WatchdogError` when that cannot be now."""

    async def ready(self) -> None:
        """Returns when the incarnation launched last takes work."""

    async def stalled(self) -> str:
        """Returns why the incarnation launched last must be replaced, once it lives but does not work."""

    def drain(self) -> float:
        """Ask the child to end once it has done what it has; returns for how many seconds to wait for that."""

    def circuit_opened(self) -> None:
        """The child will stay away for a while."""


class Observer(Protocol):
    """Who counts what happens to a child."""

    def entered(self, state: State) -> None:
        """The state changed."""

    def restarted(self, cause: Cause) -> None:
        """One more incarnation begins, because the last one ended by `cause`."""

    def became_ready(self, start_s: float) -> None:
        """It took `start_s` from spawn to ready."""

    def ended(self, death: Death) -> None:
        """An incarnation is over, whatever comes next."""


class _Wish(Enum):
    RESTART = "restart"
    STOP = "stop"


class Supervisor:
    """Keeps one child alive."""

    def __init__(
        self,
        role: Role,
        settings: Watchdog,
        deadlines: Deadlines,
        observer: Observer,
        on_line: Callable[[str, str], None],
    ) -> None:
        """`on_line` hears the child's name and each line of its output."""
        self._role = role
        self._settings = settings
        self._deadlines = deadlines
        self._observer = observer
        self._on_line = on_line
        self._log = log.bind(child=role.name)
        self._state = State.STOPPED
        self._changed = asyncio.Event()
        self._wish: _Wish | None = None
        self._wished = asyncio.Event()
        self._child: Child | None = None
        self._past = Past()
        self._restarts = 0
        self._unwanted_deaths = 0
        self._deaths: deque[Death] = deque(maxlen=KEPT_DEATHS)
        self._failure: str | None = None

    def restart(self) -> None:
        """Ask for a new incarnation now, whatever the state: what runs is drained, and the circuit is closed."""
        if self._wish is None:
            self._wish = _Wish.RESTART
            self._wished.set()

    def stop(self) -> None:
        """Ask for the end of the child, and then of `run`."""
        self._wish = _Wish.STOP
        self._wished.set()

    def hasten(self) -> None:
        """Stop, and give the child no time for it."""
        self.stop()
        if self._child is not None:
            self._child.kill()

    def snapshot(self) -> Snapshot:
        return Snapshot(
            state=self._state,
            pid=None if self._child is None else self._child.pid,
            restarts=self._restarts,
            deaths=tuple(self._deaths),
            failure=self._failure,
            unwanted_deaths=self._unwanted_deaths,
        )

    async def until(self, *states: State) -> State:
        """Returns the state once it is one of `states`."""
        while self._state not in states:
            await self._changed.wait()
        return self._state

    async def run(self) -> None:
        """Live, die, decide, again; returns after `stop`."""
        death = await self._live()
        while await self._goes_on_after(death):
            self._restarts += 1
            self._observer.restarted(death.cause)
            death = await self._live()
        self._enter(State.STOPPED)

    async def _live(self) -> Death:
        """One incarnation, from launch to death."""
        self._enter(State.STARTING)
        try:
            child = Child(self._role.launch(), self._forward, self._settings.log_lines)
            await child.spawn()
        except (OSError, WatchdogError) as error:
            return Death.now(Cause.NOT_STARTED, f"could not be started: {error}", None, (), None)
        self._child = child
        self._log.info("child_started", pid=child.pid)
        try:
            return await self._attend(child)
        finally:
            self._child = None

    async def _attend(self, child: Child) -> Death:
        """Watch a running child until it has ended, by itself or because we made it."""
        spawned = time.monotonic()
        ready_since = None
        deadline_s = self._deadlines.start_s
        role = self._role
        async with running(child.exited(), self._wished.wait(), role.stalled(), role.ready()) as tasks:
            exited, wished, stalled, ready = tasks
            await asyncio.wait(tasks, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and not exited.done():
                await ready
                ready_since = time.monotonic()
                self._became_ready(ready_since, start_s=ready_since - spawned)
                await asyncio.wait({exited, wished, stalled}, return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                return Death.of(await child.wait(), child.tail, ready_since)
            if wished.done():
                return await self._end(child, Cause.REQUESTED, "requested", ready_since)
            if stalled.done():
                return await self._end(child, Cause.STALLED, str(await stalled), ready_since)
            return await self._end(child, Cause.NOT_READY, f"not ready within {deadline_s:g} s", ready_since)

    async def _end(self, child: Child, cause: Cause, reason: str, ready_since: float | None) -> Death:
        self._enter(State.STOPPING)
        self._log.info("child_stopping", reason=reason)
        grace_s = self._deadlines.stop_s
        if cause is Cause.STALLED:
            await stacks.dump(child)
            grace_s = STALLED_GRACE_S
        elif self._wish is _Wish.RESTART and not child.frozen:
            await self._drain(child)
        code = await child.stop(grace_s + child.resident_bytes / RELEASED_BYTES_PER_S)
        if code < 0:
            reason += f", {exit_in_words(code)}"
        return Death.now(cause, reason, code, child.tail, ready_since)

    async def _drain(self, child: Child) -> None:
        """A wanted restart lets end by itself what ends soon."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._role.drain()):
                await child.exited()

    def _became_ready(self, now: float, start_s: float) -> None:
        self._failure = None
        self._deaths = deque((death.ready_again(now) for death in self._deaths), maxlen=KEPT_DEATHS)
        self._observer.became_ready(start_s)
        self._log.info("child_ready", start_s=round(start_s, 3))
        self._enter(State.READY)

    async def _goes_on_after(self, death: Death) -> bool:
        """Wait until it is time for the next incarnation; False when there is to be none."""
        self._deaths.append(death)
        self._unwanted_deaths += death.cause is not Cause.REQUESTED
        self._observer.ended(death)
        if self._wish is None:
            await (self._give_up(death) if death.final else self._back_off(death))
        if self._wish is _Wish.STOP:
            return False
        if self._wish is _Wish.RESTART:
            self._wish = None
            self._wished.clear()
            self._past = Past()
        return True

    async def _give_up(self, death: Death) -> None:
        self._failure = f"{self._role.name} cannot run: {death.last_words()}"
        self._log.error("child_unusable", error=self._failure)
        self._enter(State.FAILED)
        await self._wished.wait()

    async def _back_off(self, death: Death) -> None:
        decision = decide(self._past, death.died, death.ready_for_s, self._settings.restart, random.random())
        self._past = decision.past
        self._log.warning("child_ended", reason=death.reason, restart_in_s=round(decision.wait_s, 3))
        if decision.past.circuit_open:
            self._open_circuit(death, decision.wait_s)
        else:
            self._enter(State.BACKOFF)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(decision.wait_s):
                await self._wished.wait()

    def _open_circuit(self, death: Death, wait_s: float) -> None:
        restart = self._settings.restart
        self._failure = (
            f"{self._role.name} ended again after {restart.intensity} restarts within {restart.period_s:g} s "
            f"(last: {death.reason}); the next try is in {wait_s:g} s"
        )
        self._log.error("circuit_open", error=self._failure)
        self._role.circuit_opened()
        self._enter(State.CIRCUIT_OPEN)

    def _enter(self, state: State) -> None:
        self._state = state
        self._observer.entered(state)
        self._changed.set()
        self._changed = asyncio.Event()

    def _forward(self, line: str) -> None:
        self._on_line(self._role.name, line)


@contextlib.asynccontextmanager
async def running(*coroutines: Coroutine[None, None, object]) -> AsyncIterator[tuple[asyncio.Task[object], ...]]:
    """The coroutines as tasks that end with the block."""
    async with asyncio.TaskGroup() as group:
        tasks = tuple(group.create_task(coroutine) for coroutine in coroutines)
        yield tasks
        for task in tasks:
            task.cancel()

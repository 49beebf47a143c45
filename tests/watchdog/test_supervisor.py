"""The state machine of one child, with real processes that do as they are told."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stoker.config import Restart, Watchdog
from stoker.watchdog.child import Launch
from stoker.watchdog.death import Cause, Death
from stoker.watchdog.errors import AddressUnavailable
from stoker.watchdog.supervisor import Deadlines, State, Supervisor

LIVES = "print('ready', flush=True); input()"
NEVER_READY = "input()"
DIES_AT_START = "print('no luck'); raise SystemExit(3)"
DIES_WHEN_READY = "print('ready', flush=True); import os; os.kill(os.getpid(), 9)"
ENDS_WHEN_DRAINED = (
    "import signal; told = {signal.SIGUSR2}; signal.pthread_sigmask(signal.SIG_BLOCK, told);"
    "print('ready', flush=True); signal.sigwait(told); print('all done')"
)
TELLS_ITS_STACKS = (
    "import faulthandler, signal; faulthandler.register(signal.SIGUSR1); print('ready', flush=True); input()"
)
CANNOT_RUN = """print('{"event": "unusable", "error": "the model is missing"}'); raise SystemExit(78)"""
DEADLINE_S = 30.0


class Script:
    """A role that plays one piece of Python for each incarnation, the last one over and over."""

    name = "actor"
    drain_s = 0.0

    def __init__(self, *codes: str) -> None:
        self._codes = codes
        self._ready = asyncio.Event()
        self.launches = 0
        self.circuits_opened = 0
        self.drains = 0
        self.on_drain: Callable[[], None] = lambda: None
        self.stalls: asyncio.Queue[str] = asyncio.Queue()

    def launch(self) -> Launch:
        code = self._codes[min(self.launches, len(self._codes) - 1)]
        self.launches += 1
        self._ready.clear()
        return Launch((sys.executable, "-I", "-S", "-c", code), os.environ)

    async def ready(self) -> None:
        await self._ready.wait()

    async def stalled(self) -> str:
        return await self.stalls.get()

    def drain(self) -> float:
        self.drains += 1
        self.on_drain()
        return self.drain_s

    def circuit_opened(self) -> None:
        self.circuits_opened += 1

    def heard(self, child: str, line: str) -> None:
        assert child == self.name
        if line == "ready":
            self._ready.set()


class Diary:
    """An observer that writes everything down."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.restarts: list[Cause] = []
        self.starts_s: list[float] = []
        self.deaths: list[Death] = []

    def entered(self, state: State) -> None:
        self.states.append(state)

    def restarted(self, cause: Cause) -> None:
        self.restarts.append(cause)

    def became_ready(self, start_s: float) -> None:
        self.starts_s.append(start_s)

    def ended(self, death: Death) -> None:
        self.deaths.append(death)


def settings(intensity: int = 5, probe_s: float = 600.0, start_deadline_s: float = DEADLINE_S) -> Watchdog:
    restart = Restart(intensity=intensity, backoff_initial_s=0.01, backoff_max_s=0.01, probe_s=probe_s)
    return Watchdog(restart=restart, start_deadline_s=start_deadline_s)


@asynccontextmanager
async def supervised(
    role: Script, diary: Diary | None = None, wanted: Watchdog | None = None
) -> AsyncIterator[Supervisor]:
    """A running supervisor, stopped in the end."""
    settled = wanted or settings()
    supervisor = Supervisor(
        role, settled, Deadlines(settled.start_deadline_s, DEADLINE_S), diary or Diary(), role.heard
    )
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(DEADLINE_S):
        try:
            yield supervisor
        finally:
            supervisor.stop()
            await running
        assert supervisor.snapshot().state is State.STOPPED
        assert supervisor.snapshot().pid is None


async def test_a_child_is_ready_when_its_role_says_so() -> None:
    diary = Diary()
    async with supervised(Script(LIVES), diary) as supervisor:
        await supervisor.until(State.READY)
        assert diary.states == [State.STARTING, State.READY]
        assert len(diary.starts_s) == 1
    assert diary.states[2:] == [State.STOPPING, State.STOPPED]


async def test_a_child_that_died_is_started_again_and_its_death_is_kept() -> None:
    diary = Diary()
    async with supervised(Script(DIES_AT_START, LIVES), diary) as supervisor:
        await supervisor.until(State.READY)
        (death,) = supervisor.snapshot().deaths
        assert (death.reason, death.exit_code, death.log_tail) == ("exit code 3: no luck", 3, ("no luck",))
        assert death.ready_after_s is not None
        assert death.ready_for_s == 0
    assert diary.states[:4] == [State.STARTING, State.BACKOFF, State.STARTING, State.READY]
    assert diary.restarts == [Cause.EXITED]


async def test_a_child_that_was_ready_and_is_killed_is_told_apart() -> None:
    async with supervised(Script(DIES_WHEN_READY, LIVES)) as supervisor:
        await supervisor.until(State.BACKOFF)
        await supervisor.until(State.READY)
        (death,) = supervisor.snapshot().deaths
        assert (death.cause, death.reason) == (Cause.KILLED, "killed by SIGKILL")


async def test_a_child_that_does_not_become_ready_in_time_is_replaced() -> None:
    role, diary = Script(NEVER_READY, LIVES), Diary()
    async with supervised(role, diary, settings(start_deadline_s=0.2)) as supervisor:
        await supervisor.until(State.STOPPING)
        await supervisor.until(State.BACKOFF)
    assert diary.restarts[:1] in ([], [Cause.NOT_READY])
    death = supervisor.snapshot().deaths[0]
    assert (death.cause, death.reason) == (Cause.NOT_READY, "not ready within 0.2 s, killed by SIGTERM")


async def test_a_crash_loop_stops_at_the_intensity() -> None:
    role = Script(DIES_AT_START)
    async with supervised(role, wanted=settings(intensity=3)) as supervisor:
        await supervisor.until(State.CIRCUIT_OPEN)
        snapshot = supervisor.snapshot()
        assert (role.launches, snapshot.restarts, role.circuits_opened) == (4, 3, 1)
        assert snapshot.failure == (
            "actor ended again after 3 restarts within 120 s (last: exit code 3: no luck); the next try is in 600 s"
        )


async def test_a_probe_that_becomes_ready_ends_the_failure() -> None:
    role = Script(DIES_AT_START, DIES_AT_START, LIVES)
    async with supervised(role, wanted=settings(intensity=1, probe_s=0.01)) as supervisor:
        await supervisor.until(State.READY)
        assert (role.circuits_opened, supervisor.snapshot().failure) == (1, None)


async def test_a_restart_on_request_is_no_crash() -> None:
    role, diary = Script(LIVES), Diary()
    async with supervised(role, diary, settings(intensity=1)) as supervisor:
        for times in range(1, 5):
            await supervisor.until(State.READY)
            supervisor.restart()
            await supervisor.until(State.STARTING)
            assert supervisor.snapshot().restarts == times
        assert supervisor.snapshot().deaths[-1].reason == "requested, killed by SIGTERM"
    assert set(diary.restarts) == {Cause.REQUESTED}
    assert State.BACKOFF not in diary.states


async def test_a_restart_on_request_waits_for_a_child_that_ends_by_itself() -> None:
    role = Script(ENDS_WHEN_DRAINED, LIVES)
    role.drain_s = DEADLINE_S
    async with supervised(role) as supervisor:
        await supervisor.until(State.READY)
        pid = supervisor.snapshot().pid
        assert pid is not None
        role.on_drain = lambda: os.kill(pid, signal.SIGUSR2)
        supervisor.restart()
        await supervisor.until(State.STARTING)
        death = supervisor.snapshot().deaths[-1]
        assert (role.drains, death.reason, death.exit_code) == (1, "requested", 0)
        assert death.log_tail[-1] == "all done"
    assert role.drains == 1  # A tree that ends has drained at its service.


async def test_a_child_that_does_not_end_by_itself_is_asked_to_when_its_drain_is_over() -> None:
    role = Script(LIVES)
    role.drain_s = 0.05
    async with supervised(role) as supervisor:
        await supervisor.until(State.READY)
        supervisor.restart()
        await supervisor.until(State.STARTING)
        assert supervisor.snapshot().deaths[-1].reason == "requested, killed by SIGTERM"


async def test_a_stalled_child_leaves_its_stacks_and_is_started_again() -> None:
    role, diary = Script(TELLS_ITS_STACKS, LIVES), Diary()
    async with supervised(role, diary) as supervisor:
        await supervisor.until(State.READY)
        role.stalls.put_nowait("stalled: no step for 12 s")
        await supervisor.until(State.BACKOFF)
        await supervisor.until(State.READY)
        (death,) = supervisor.snapshot().deaths
        assert (death.cause, death.reason) == (Cause.STALLED, "stalled: no step for 12 s, killed by SIGTERM")
        assert any("most recent call first" in line for line in death.log_tail)
    assert diary.restarts == [Cause.STALLED]


async def test_a_child_that_stalls_before_it_is_ready_is_started_again_too() -> None:
    role = Script(NEVER_READY, LIVES)
    async with supervised(role) as supervisor:
        await supervisor.until(State.STARTING)
        role.stalls.put_nowait("stalled: no heartbeat")
        await supervisor.until(State.BACKOFF)
        await supervisor.until(State.READY)


async def test_a_frozen_child_is_killed_when_it_stalls() -> None:
    role = Script(LIVES)
    async with supervised(role) as supervisor:
        await supervisor.until(State.READY)
        pid = supervisor.snapshot().pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        role.stalls.put_nowait("stalled: no heartbeat")
        await supervisor.until(State.BACKOFF)
        assert supervisor.snapshot().deaths[-1].reason == "stalled: no heartbeat, killed by SIGKILL"


async def test_a_restart_on_request_ends_an_open_circuit_at_once() -> None:
    async with supervised(Script(DIES_AT_START, DIES_AT_START, LIVES), wanted=settings(intensity=1)) as supervisor:
        await supervisor.until(State.CIRCUIT_OPEN)
        supervisor.restart()
        await supervisor.until(State.READY)


async def test_a_child_that_says_it_cannot_run_is_left_alone_until_somebody_asks() -> None:
    role = Script(CANNOT_RUN, LIVES)
    async with supervised(role) as supervisor:
        await supervisor.until(State.FAILED)
        assert supervisor.snapshot().failure == "actor cannot run: the model is missing"
        assert role.launches == 1
        supervisor.restart()
        await supervisor.until(State.READY)
        assert supervisor.snapshot().failure is None


async def test_a_start_that_the_system_refuses_counts_as_a_death() -> None:
    class Homeless(Script):
        def launch(self) -> Launch:
            launch = super().launch()
            if self.launches == 1:
                raise AddressUnavailable("the port is taken")
            return launch

    async with supervised(Homeless(LIVES)) as supervisor:
        await supervisor.until(State.READY)
        (death,) = supervisor.snapshot().deaths
        assert (death.cause, death.reason) == (Cause.NOT_STARTED, "could not be started: the port is taken")


async def test_a_child_can_be_stopped_while_it_waits_for_its_restart() -> None:
    wanted = Watchdog(restart=Restart(backoff_initial_s=600, backoff_max_s=600))
    async with supervised(Script(DIES_AT_START), wanted=wanted) as supervisor:
        await supervisor.until(State.BACKOFF)


async def test_a_hastened_child_is_killed_at_once() -> None:
    deaf = "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); input()"
    async with supervised(Script(deaf)) as supervisor:
        await supervisor.until(State.READY)
        supervisor.stop()
        await supervisor.until(State.STOPPING)
        supervisor.hasten()
        await supervisor.until(State.STOPPED)
        assert supervisor.snapshot().deaths[-1].exit_code == -9

"""An engine as the watchdog's child: a new epoch and settings for each incarnation, ready when it says so itself."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Mapping

from ..config import EngineProcess, Paths, Watchdog
from ..engine.client import SocketEngineClient
from ..engine.errors import EngineUnavailable
from ..engine.protocol import Heartbeat, Ready, Reclaimed, RequestEvent, Tighten
from .child import Launch
from .home import EpochCounter, private_folder, write_private
from .stall import StallDetector

STALL_POLL_S = 0.25
RECLAIM_DEADLINE_S = 8.0
"""It answers between two steps; who asked by HTTP waits a little longer than this."""

DRAIN_MARGIN_S = 1.0
"""The engine ends itself at its drain deadline; this is for the step that it is in."""


class EngineRole:
    """One engine by name. Run `listen` as a task for as long as the tree lives."""

    def __init__(
        self,
        *,
        paths: Paths,
        template: EngineProcess,
        watchdog: Watchdog,
        environment: Mapping[str, str],
        pass_fds: tuple[int, ...],
    ) -> None:
        """`template` is what each incarnation is told, but for its epoch."""
        self._template = template
        self._watchdog = watchdog
        self._settings_file = paths.child_settings(self.name)
        self._environment = environment
        self._pass_fds = pass_fds
        self._epochs = EpochCounter(paths.epoch(template.name))
        self._client = SocketEngineClient(template.socket, self)
        self._ready = asyncio.Event()
        self._stall = self._new_detector(warm=False)
        self._warm = False
        self._kv_path = template.kv_path
        self._forgets_kv = False
        self.epoch = 0
        self.heartbeat: Heartbeat | None = None
        self.ready_since: float | None = None
        """On the monotonic clock; None while no incarnation is ready."""

    @property
    def name(self) -> str:
        return f"engine-{self._template.name}"

    @property
    def settings(self) -> EngineProcess:
        return self._template

    def launch(self) -> Launch:
        self.epoch = self._epochs.next()
        self.heartbeat = None
        self.ready_since = None
        if self._forgets_kv:
            self._forgets_kv = False
            shutil.rmtree(self._kv_path, ignore_errors=True)
        self._warm = self._warm or self._stall.measured
        self._stall = self._new_detector(self._warm)
        self._ready.clear()
        private_folder(self._template.socket.parent)
        self._template.socket.unlink(missing_ok=True)
        settings = self._template.model_copy(update={"epoch": self.epoch})
        write_private(self._settings_file, settings.model_dump_json().encode())
        argv = (sys.executable, "-P", "-m", "stoker.engine", str(self._settings_file))
        return Launch(argv, self._environment, self._pass_fds)

    async def ready(self) -> None:
        await self._ready.wait()

    async def stalled(self) -> str:
        while True:
            if (reason := self._stall.check(time.monotonic())) is not None:
                return reason
            await asyncio.sleep(STALL_POLL_S)

    def drain(self) -> float:
        drain_s = self._watchdog.restart_drain_s
        return drain_s + DRAIN_MARGIN_S if self._client.drain(drain_s) else 0.0

    async def reclaim(self, level: int) -> Reclaimed:
        """Have the engine give memory back. Raises `EngineUnavailable`, also when it does not answer in time."""
        try:
            async with asyncio.timeout(RECLAIM_DEADLINE_S):
                return await self._client.reclaim(level)
        except TimeoutError as error:
            message = f"the engine did not answer within {RECLAIM_DEADLINE_S:g} s"
            raise EngineUnavailable(f"{message}; `stoker status` says what it does") from error

    def tighten(self, limits: Tighten) -> bool:
        """Bound what the engine does at once; False when there is none to hear it."""
        return self._client.tighten(limits)

    def forget_kv(self) -> None:
        """The next incarnation begins without any KV of earlier ones."""
        self._forgets_kv = True

    @property
    def hears(self) -> bool:
        """Whether an incarnation is there to be told something."""
        return self.ready_since is not None

    @property
    def step_bound_s(self) -> float | None:
        """How long the running step may take, as far as its pace is known."""
        return self._stall.step_bound_s(time.monotonic())

    def circuit_opened(self) -> None:
        """Nobody queues at an engine: the service answers for it."""

    def clear_away(self) -> None:
        """Remove the socket of an engine that was killed, and the folder that only a long home's socket needs."""
        self._template.socket.unlink(missing_ok=True)
        if self._template.socket.parent != self._settings_file.parent:
            self._template.socket.parent.rmdir()

    async def listen(self) -> None:
        """Hear what the engine says about itself; ends only by cancellation."""
        await self._client.run()

    def engine_ready(self, ready: Ready) -> None:
        if ready.epoch == self.epoch:
            self.ready_since = time.monotonic()
            self._stall.became_ready(self.ready_since)
            self._ready.set()

    def engine_draining(self) -> None:
        """Its end is the supervisor's doing, or a signal's; either way it shows at the process."""

    def engine_lost(self, reason: str) -> None:
        """What it said last is no longer so; whether it died, the supervisor sees at the process."""
        self.heartbeat = None
        self.ready_since = None

    def engine_heartbeat(self, heartbeat: Heartbeat) -> None:
        if heartbeat.epoch == self.epoch:
            self.heartbeat = heartbeat
            self._stall.heard(heartbeat, time.monotonic())

    def engine_event(self, event: RequestEvent) -> None:
        """The watchdog has no requests."""

    def _new_detector(self, warm: bool) -> StallDetector:
        return StallDetector(self._watchdog.stall_after_s, self._template.engine.heartbeat_s, warm)

"""The service as the watchdog's child: it inherits the listening socket, and is ready when it answers there."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Mapping

import aiohttp

from ..config import EngineEndpoint, Paths, Server, ServiceProcess, Telemetry
from .child import Launch
from .home import write_private
from .ports import ListeningSocket

PROBE_TIMEOUT_S = 2.0
PROBE_PAUSE_S = 0.02
LIVENESS_PAUSE_S = 1.0


class ServiceRole:
    """The one service of the tree."""

    def __init__(
        self,
        *,
        paths: Paths,
        server: Server,
        telemetry: Telemetry,
        watchdog_url: str,
        engine: EngineEndpoint,
        listening: ListeningSocket,
        stall_after_s: float,
        admin_token: str,
        http: aiohttp.ClientSession,
        environment: Mapping[str, str],
        pass_fds: tuple[int, ...],
    ) -> None:
        self._settings_file = paths.child_settings(self.name)
        self._server = server
        self._telemetry = telemetry
        self._watchdog_url = watchdog_url
        self._engine = engine
        self._listening = listening
        self._stall_after_s = stall_after_s
        self._admin_token_sha256 = hashlib.sha256(admin_token.encode()).hexdigest()
        self._answered = asyncio.Event()
        self._http = http
        self._environment = environment
        self._pass_fds = pass_fds

    @property
    def name(self) -> str:
        return "service"

    @property
    def url(self) -> str:
        return self._listening.url

    def launch(self) -> Launch:
        self._answered.clear()
        descriptor = self._listening.open().fileno()
        settings = ServiceProcess(
            server=self._server,
            telemetry=self._telemetry,
            listen_fd=descriptor,
            engine=self._engine,
            admin_token_sha256=self._admin_token_sha256,
            watchdog_url=self._watchdog_url,
        )
        write_private(self._settings_file, settings.model_dump_json().encode())
        argv = (sys.executable, "-P", "-m", "stoker.service", str(self._settings_file))
        return Launch(argv, self._environment, pass_fds=(descriptor, *self._pass_fds))

    async def ready(self) -> None:
        await self._until_ok("/health/live")
        self._answered.set()

    async def stalled(self) -> str:
        await self._answered.wait()
        silent_s = 0.0
        while silent_s <= self._stall_after_s:
            await asyncio.sleep(LIVENESS_PAUSE_S)
            asked = time.monotonic()
            answered = await self._answers_ok("/health/live")
            # No more than a probe can take: a pause of this process is not held against the service.
            silent_s = 0.0 if answered else silent_s + min(time.monotonic() - asked, PROBE_TIMEOUT_S)
        return f"stalled: no answer for {silent_s:.1f} s (bound {self._stall_after_s:.1f} s)"

    def drain(self) -> float:
        """It drains after SIGTERM, for its own deadline."""
        return 0.0

    def circuit_opened(self) -> None:
        """Nobody will answer for a while: clients are refused rather than left to hang in the queue."""
        self._listening.close()

    async def takes_requests(self) -> bool:
        """What the service itself says about the way to an engine."""
        return await self._answers_ok("/health/ready")

    async def takes_requests_soon(self) -> None:
        """Returns when `takes_requests` would say so."""
        await self._until_ok("/health/ready")

    async def _until_ok(self, path: str) -> None:
        while True:
            if await self._answers_ok(path):
                return
            await asyncio.sleep(PROBE_PAUSE_S)

    async def _answers_ok(self, path: str) -> bool:
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
        try:
            async with self._http.get(self._listening.url + path, timeout=timeout) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

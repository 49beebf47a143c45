"""A collector of traces that only counts: where a run has none to take down, it is one itself."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from aiohttp import web

from ..config import Telemetry


class Collector:
    """OTLP over HTTP on a loopback port. Use `serving` for as long as the run."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self.received = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        await self._up()
        try:
            yield
        finally:
            await self._down()

    @contextlib.asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """Gone for as long as the block runs."""
        await self._down()
        try:
            yield
        finally:
            await self._up()

    async def _up(self) -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, reuse_address=True).start()

    async def _down(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        await request.read()
        self.received += 1
        return web.Response()


def collector_for(telemetry: Telemetry) -> Collector | None:
    """One where the tree sends its traces, if that is a port of this machine, by HTTP."""
    if telemetry.otlp_endpoint is None or telemetry.otlp_protocol != "http":
        return None
    found = urlsplit(telemetry.otlp_endpoint)
    if found.hostname not in {"127.0.0.1", "localhost"} or found.port is None:
        return None
    return Collector("127.0.0.1", found.port)

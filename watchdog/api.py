"""The watchdog's HTTP interface on loopback: status and metrics for all, restarts for who holds the token."""

from __future__ import annotations

import hmac
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from .status import Status

CLOSE_DEADLINE_S = 1.0


class Operated(Protocol):
    """The tree, as seen by who operates it."""

    async def status(self) -> Status:
        """The whole tree now."""

    def restart_engine(self, name: str) -> int:
        """Begin a planned restart; returns the epoch that ends. Raises `KeyError` when there is no such engine."""


class WatchdogApi:
    """Routes over a tree."""

    def __init__(self, tree: Operated, registry: CollectorRegistry, token: str) -> None:
        self._tree = tree
        self._token = token
        self._app = web.Application()
        self._app.router.add_get("/status", self._status)
        self._app.router.add_get("/metrics", make_aiohttp_handler(registry))
        self._app.router.add_post("/engines/{name}/restart", self._restart_engine)

    @asynccontextmanager
    async def serving(self, listening: socket.socket) -> AsyncIterator[None]:
        """Answer on the socket for as long as the block runs."""
        runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=CLOSE_DEADLINE_S)
        await runner.setup()
        try:
            await web.SockSite(runner, listening).start()
            yield
        finally:
            await runner.cleanup()

    async def _status(self, request: web.Request) -> web.Response:
        return _json(await self._tree.status())

    async def _restart_engine(self, request: web.Request) -> web.Response:
        if not self._allowed(request):
            return _error(
                401, "unauthorized", "send `Authorization: Bearer` with the token of $STOKER_HOME/admin.token"
            )
        name = request.match_info["name"]
        try:
            epoch = self._tree.restart_engine(name)
        except KeyError:
            return _error(404, "no_such_engine", f"there is no engine `{name}`; `stoker status` lists them")
        return _json({"engine": name, "epoch": epoch}, status=202)

    def _allowed(self, request: web.Request) -> bool:
        shown = request.headers.get("Authorization", "")
        return hmac.compare_digest(shown.encode(), f"Bearer {self._token}".encode())


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(body), content_type="application/json")


def _error(status: int, code: str, message: str) -> web.Response:
    return _json({"error": {"code": code, "message": message}}, status)

"""The watchdog's HTTP interface on loopback: what it sees for all to read, acts for who holds the token."""

from __future__ import annotations

import hmac
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Protocol

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from ..alerts.delivery import Telling
from ..alerts.errors import QuietUnusable
from ..alerts.runbooks import page
from ..engine.errors import EngineUnavailable
from ..engine.protocol import Reclaimed, ReclaimLevel
from .journal.records import Interval
from .journal.ribbon import Piece
from .past import Look, Past
from .samples import Sample, encode
from .soak_news import SoakNews
from .status import Status

CLOSE_DEADLINE_S = 1.0
MAX_PIECES = 1000
MAX_SILENCE_S = 30 * 86400.0


class _Reclaiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: ReclaimLevel = 1


class _Silencing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lasting_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_SILENCE_S)]
    reason: str = ""


class Operated(Protocol):
    """The tree, as seen by who operates it."""

    async def status(self) -> Status:
        """The whole tree now."""

    def restart_engine(self, name: str) -> int:
        """Begin a planned restart; returns the epoch that ends. Raises `KeyError` when there is no such engine."""

    def hear_soak(self, news: SoakNews) -> None:
        """A soak run on this tree tells how it does."""

    def drain_engine(self, name: str, drained: bool) -> None:
        """Give an engine nothing new, or again what comes; what runs goes on. Raises `KeyError`."""

    def silence(self, lasting_s: float, reason: str) -> None:
        """Tell nobody of incidents for so long; 0 ends it. Raises `QuietUnusable`."""

    async def reclaim_engine(self, name: str, level: int) -> Reclaimed:
        """Have an engine give memory back. Raises `KeyError`, or `EngineUnavailable` when it does not answer."""


class Watched(Protocol):
    """What was seen and written down."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The last ones, oldest first."""

    @property
    def look(self) -> Look | None:
        """The last one, and what the detectors say; None before the first."""

    async def history(self, window_s: float) -> Past:
        """Incidents and uptime of the last so many seconds."""

    def telling(self) -> Telling:
        """Who is told of incidents, and what is on its way."""

    async def spells(self, window_s: float) -> list[Interval]:
        """What the tree was in the last so many seconds, oldest first."""

    async def ribbon(self, window_s: float, pieces: int) -> list[Piece]:
        """The same time in so many pieces, oldest first."""


class WatchdogApi:
    """Routes over a tree."""

    def __init__(self, tree: Operated, watched: Watched, registry: CollectorRegistry, token: str) -> None:
        self._tree = tree
        self._watched = watched
        self._token = token
        self._app = web.Application()
        self._app.router.add_get("/status", self._status)
        self._app.router.add_get("/incidents", self._incidents)
        self._app.router.add_get("/spells", self._spells)
        self._app.router.add_get("/uptime", self._uptime)
        self._app.router.add_get("/look", self._look)
        self._app.router.add_get("/samples", self._samples)
        self._app.router.add_get("/alerts", self._alerts)
        self._app.router.add_get("/runbooks/{name}", self._runbook)
        self._app.router.add_get("/metrics", make_aiohttp_handler(registry))
        self._app.router.add_post("/soak", self._soak)
        self._app.router.add_post("/engines/{name}/restart", self._restart_engine)
        self._app.router.add_post("/silence", self._silence)
        self._app.router.add_post("/engines/{name}/{action:drain|resume}", self._drain_engine)
        self._app.router.add_post("/engines/{name}/reclaim", self._reclaim_engine)

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

    async def _incidents(self, request: web.Request) -> web.Response:
        window_s = request.query.get("since_s", "")
        return _json(await self._watched.history(float(window_s))) if window_s.isdecimal() else _no_window(request)

    async def _spells(self, request: web.Request) -> web.Response:
        window_s = request.query.get("since_s", "")
        return _json(await self._watched.spells(float(window_s))) if window_s.isdecimal() else _no_window(request)

    async def _alerts(self, request: web.Request) -> web.Response:
        return _json(self._watched.telling())

    async def _runbook(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        text = page(name)
        if text is None:
            return _error(404, "no_such_runbook", f"there is no runbook `{name}`; `stoker alerts rules` names them all")
        return web.Response(text=text, content_type="text/markdown")

    async def _uptime(self, request: web.Request) -> web.Response:
        window_s, pieces = request.query.get("since_s", ""), request.query.get("pieces", "1")
        if not (window_s.isdecimal() and pieces.isdecimal() and 0 < int(pieces) <= MAX_PIECES):
            bound = f"`pieces` (1 to {MAX_PIECES}) how many to make of it"
            example = "/uptime?since_s=259200&pieces=144"
            return _error(400, "invalid_value", f"`since_s` is how many seconds to look back, {bound}; try {example}")
        return _json(await self._watched.ribbon(float(window_s), int(pieces)))

    async def _look(self, request: web.Request) -> web.Response:
        """`null` before the first."""
        return _json(self._watched.look)

    async def _samples(self, request: web.Request) -> web.Response:
        lines = [encode(sample) + b"\n" for sample in self._watched.samples]
        return web.Response(body=b"".join(lines), content_type="application/jsonl")

    async def _soak(self, request: web.Request) -> web.Response:
        if not self._allowed(request):
            return _unauthorized()
        try:
            self._tree.hear_soak(msgspec.json.decode(await request.read(), type=SoakNews))
        except msgspec.MsgspecError as error:
            return _error(400, "invalid_body", f"{error}; only `stoker soak run` of this version writes here")
        return _json({})

    async def _restart_engine(self, request: web.Request) -> web.Response:
        if not self._allowed(request):
            return _unauthorized()
        name = request.match_info["name"]
        try:
            epoch = self._tree.restart_engine(name)
        except KeyError:
            return _no_such_engine(name)
        return _json({"engine": name, "epoch": epoch}, status=202)

    async def _drain_engine(self, request: web.Request) -> web.Response:
        if not self._allowed(request):
            return _unauthorized()
        name, drained = request.match_info["name"], request.match_info["action"] == "drain"
        try:
            self._tree.drain_engine(name, drained)
        except KeyError:
            return _no_such_engine(name)
        return _json({"engine": name, "drained": drained})

    async def _silence(self, request: web.Request) -> web.Response:
        if not self._allowed(request):
            return _unauthorized()
        try:
            asked = msgspec.json.decode(await request.read(), type=_Silencing)
            self._tree.silence(asked.lasting_s, asked.reason)
        except msgspec.MsgspecError as error:
            return _error(400, "invalid_body", f'{error}; send `{{"lasting_s": 3600}}`')
        except QuietUnusable as error:
            return _error(503, "quiet_unusable", str(error))
        return _json({"silent_for_s": asked.lasting_s})

    async def _reclaim_engine(self, request: web.Request) -> web.Response:
        if not self._allowed(request):
            return _unauthorized()
        name = request.match_info["name"]
        try:
            level = msgspec.json.decode(await request.read(), type=_Reclaiming).level
            done = await self._tree.reclaim_engine(name, level)
        except msgspec.MsgspecError as error:
            return _error(400, "invalid_body", f'{error}; send `{{"level": N}}` with N from 0 to 3')
        except KeyError:
            return _no_such_engine(name)
        except EngineUnavailable as error:
            return _error(503, "engine_unavailable", str(error))
        return _json({"engine": name, "level": done.level, "freed_bytes": done.freed_bytes})

    def _allowed(self, request: web.Request) -> bool:
        shown = request.headers.get("Authorization", "")
        return hmac.compare_digest(shown.encode(), f"Bearer {self._token}".encode())


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(body), content_type="application/json")


def _no_window(request: web.Request) -> web.Response:
    way_out = f"`since_s` is how many seconds to look back; try {request.path}?since_s=259200"
    return _error(400, "invalid_value", way_out)


def _unauthorized() -> web.Response:
    return _error(401, "unauthorized", "send `Authorization: Bearer` with the token of $STOKER_HOME/admin.token")


def _no_such_engine(name: str) -> web.Response:
    return _error(404, "no_such_engine", f"there is no engine `{name}`; `stoker status` lists them")


def _error(status: int, code: str, message: str) -> web.Response:
    return _json({"error": {"code": code, "message": message}}, status)

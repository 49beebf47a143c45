"""The status page's paths, and who may use them.

The page itself says nothing and is for everybody. What it shows is for everybody who may use the API: where there are
keys, for who holds the tree's own token. What it does takes that token in a header, which no page of another origin
can send.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from .. import telemetry
from ..context import Context
from ..engine_totals import EngineTotals
from ..errors import RouteNotFound, TraceNotFound, WatchdogUnavailable
from ..internal import require_admin
from ..traces import RING
from . import requests
from .feed import Feed
from .files import GUARDS, INDEX, answer, read_files
from .live import live
from .watchdog import WatchdogReader, WatchdogSilent


class StatusPage:
    """The page of one service. Run `run` as a task."""

    def __init__(self, context: Context, engines: EngineTotals, watchdog_url: str | None) -> None:
        self._context = context
        self._files = read_files()
        self._watchdog = None if watchdog_url is None else WatchdogReader(watchdog_url)
        self._feed = Feed(
            look=lambda tokens_per_s: live(context, engines, tokens_per_s),
            rows=lambda: requests.rows(context.traces.recent(requests.LISTED)),
            tokens=lambda: next(iter(context.metrics.generated_tokens.collect())).samples[0].value,
            watchdog=self._watchdog,
        )

    async def run(self) -> None:
        """Ends only by cancellation."""
        await self._feed.run()

    def routes(self) -> list[web.RouteDef]:
        """All of them."""
        return [
            web.get("/", self._index),
            web.get("/page/events", self._events),
            web.get("/page/requests/{id}", self._request),
            web.post("/page/{path:engines/[\\w-]+/(?:restart|drain|resume)|silence}", self._act),
            web.get("/page/{file}", self._file),
        ]

    async def _index(self, request: web.Request) -> web.Response:
        return answer(self._files[INDEX], request)

    async def _file(self, request: web.Request) -> web.Response:
        file = self._files.get(request.match_info["file"])
        if file is None:
            raise RouteNotFound(f"no such path: {request.path}; the status page is at /")
        return answer(file, request)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """What the page shows, as server-sent events, for as long as it is open."""
        self._require_sight(request)
        response = web.StreamResponse(headers=GUARDS)
        response.content_type = "text/event-stream"
        response.headers["Cache-Control"] = "no-store"
        with self._feed.following() as follower:
            await response.prepare(request)
            async for events in follower.events():
                await response.write(events)
        return response

    async def _request(self, request: web.Request) -> web.Response:
        """One request's trace, for its waterfall; what was said in it is not the page's business."""
        self._require_sight(request)
        found = self._context.traces.find(request.match_info["id"])
        if found is None:
            raise TraceNotFound(f"that request is no longer among the last {RING}")
        return web.json_response({**found, "spans": [_without_content(span) for span in found["spans"]]})

    async def _act(self, request: web.Request) -> web.Response:
        """Restart, drain or resume an engine, or silence the alerts: the watchdog does it."""
        require_admin(request, self._context)
        try:
            if self._watchdog is None:
                raise WatchdogSilent
            path, asked = request.match_info["path"], await request.read()
            status, body = await self._watchdog.act(path, asked, request.headers["Authorization"])
        except WatchdogSilent as error:
            raise WatchdogUnavailable("the watchdog does not answer; see `stoker status`") from error
        return web.Response(status=status, body=body, content_type="application/json")

    def _require_sight(self, request: web.Request) -> None:
        if self._context.keys is not None:
            require_admin(request, self._context)


def _without_content(span: dict[str, Any]) -> dict[str, Any]:
    said = {telemetry.INPUT_MESSAGES, telemetry.OUTPUT_MESSAGES}
    return {**span, "attributes": {name: value for name, value in span["attributes"].items() if name not in said}}

"""Pages of other origins that may ask from a browser: only those in `server.cors_origins`, and by default none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

PREFLIGHT_AGE_S = 600


def allow(origins: tuple[str, ...]) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """A signal handler that lets pages of these origins read a response."""

    async def say_so(request: web.Request, response: web.StreamResponse) -> None:
        origin = request.headers.get("Origin")
        if origin in origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "x-request-id, x-stoker-cache, server-timing"
            response.headers.add("Vary", "Origin")

    return say_so


async def preflight(request: web.Request) -> web.Response:
    """What a browser asks before it sends a request with a body or a key."""
    allowed = {
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": request.headers.get("Access-Control-Request-Headers", ""),
        "Access-Control-Max-Age": str(PREFLIGHT_AGE_S),
    }
    return web.Response(status=204, headers=allowed)

"""One client's connection: what is no HTTP that can be read reaches no route, and is refused as everything else is."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from .errors import InternalError, ServiceError, UnreadableRequest

BACKLOG = 128

log = structlog.get_logger(__name__)


class Connection(web.RequestHandler):
    """aiohttp's, but for its errors: they would be plain text, and put what the client sent into the log."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The whole answer, in OpenAI's form: there is no path that could tell which API was meant.

        Raises `ConnectionError` when another answer has begun.
        """
        error = _as_service_error(status, exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun; there is no room for another")
        response = web.json_response(error.body(), status=error.status)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """One line, as everything else that is logged."""
        log.warning("connection_failed", exc_info=kw.get("exc_info", True))


async def listen(runner: web.AppRunner, on: socket.socket) -> asyncio.Server:
    """Serve what was set up on a socket; to be closed before the runner is cleaned up."""
    server, loop = runner.server, asyncio.get_running_loop()
    assert server is not None
    return await loop.create_server(lambda: Connection(server, loop=loop), sock=on, backlog=BACKLOG)


def _as_service_error(status: int, exc: BaseException | None) -> ServiceError:
    if status >= InternalError.status:
        log.error("request_failed", exc_info=exc)
        return InternalError()
    # Its text may hold a key.
    log.info("request_unreadable", kind=type(exc).__name__)
    if isinstance(exc, LineTooLong):
        return UnreadableRequest(f"a line of the request's head is longer than {exc.args[1]} bytes; send less in it")
    return UnreadableRequest("this is no HTTP request that can be read; is it meant for another protocol or port?")

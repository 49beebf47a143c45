"""From the generations of a request to its client: whole, or as server-sent events that an API's writer shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from aiohttp import web

from . import timing
from .answering import Answering, Outcome
from .errors import ServiceError
from .generation import Piece, Scored
from .middleware import BROKEN_BY, as_service_error
from .segments import Segment, merged
from .telemetry import STREAM
from .trace import timed

KEEPALIVE = b": keep-alive\n\n"


@dataclass(frozen=True)
class Answer:
    """One whole answer."""

    outcome: Outcome
    segments: list[Segment] = field(default_factory=list)
    scored: list[Scored] = field(default_factory=list)


class Writer(Protocol):
    """How one API writes answers as events; `number` says which answer, `id` what the API calls them all."""

    id: str

    def begin(self) -> bytes:
        """Before anything is known of the answers."""

    def more(self, number: int, segments: Sequence[Segment], scored: Sequence[Scored]) -> bytes:
        """The next part of one answer."""

    def end(self, number: int, outcome: Outcome) -> bytes:
        """One answer is complete."""

    def complete(self) -> bytes:
        """All of them are."""

    def waiting(self) -> bytes:
        """Nothing came for a while, and the connection must not look dead."""

    def broken(self, error: ServiceError) -> bytes:
        """It cannot go on."""


async def whole(answers: Answering) -> list[Answer]:
    """Every answer, in order. Raises the `ServiceError` that ended one of them."""
    pieces: list[list[Piece]] = [[] for _ in range(len(answers))]
    while answers.unfinished:
        news = await answers.next()
        if news is not None:
            number, piece = news
            pieces[number].append(piece)
    return [_joined(answers, number, pieces[number]) for number in range(len(answers))]


async def respond(answers: Answering, body: dict[str, Any]) -> web.Response:
    """A whole answer as JSON."""
    answers.named(body["id"])
    headers = await answers.headers()
    return web.Response(body=orjson.dumps(body), content_type="application/json", headers=headers)


async def stream(request: web.Request, answers: Answering, writer: Writer) -> web.StreamResponse:
    """Server-sent events. Until the engine has begun, an error still gets a status of its own."""
    answers.named(writer.id)
    news = await answers.next()
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", **await answers.headers()}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    with timed(STREAM):
        try:
            await _relay(answers, response, writer, news)
        except ConnectionResetError:
            raise
        except Exception as error:
            request[BROKEN_BY] = as_service_error(request, error)
            await response.write(writer.broken(request[BROKEN_BY]))
        await response.write_eof()
    return response


async def _relay(
    answers: Answering, response: web.StreamResponse, writer: Writer, news: tuple[int, Piece] | None
) -> None:
    """One write for all that has come since the last one: a slow reader slows its own stream alone."""
    await response.write(writer.begin())
    while True:
        events = writer.waiting() if news is None else _events(answers, writer, *news)
        if not answers.unfinished:
            await response.write(events + _timing(answers) + writer.complete())
            return
        if events:
            await response.write(events)
        news = await answers.next()


def _timing(answers: Answering) -> bytes:
    """A stream's headers went out before its times were known."""
    return b": %b %b\n\n" % (timing.HEADER.encode(), answers.timing().encode())


def _events(answers: Answering, writer: Writer, number: int, piece: Piece) -> bytes:
    more = writer.more(number, piece.segments, piece.scored) if piece.segments or piece.scored else b""
    if piece.finish is None:
        return more
    return more + writer.end(number, answers.outcome(number, piece.finish))


def _joined(answers: Answering, number: int, pieces: Sequence[Piece]) -> Answer:
    finish = pieces[-1].finish
    assert finish is not None, "read to its end"
    segments = merged(segment for piece in pieces for segment in piece.segments)
    scored = [token for piece in pieces for token in piece.scored]
    return Answer(answers.outcome(number, finish), segments, scored)

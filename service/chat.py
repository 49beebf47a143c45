"""`POST /v1/chat/completions`, streaming and not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web

from ..engine.protocol import FinishReason
from . import openai
from .admission import output_bound
from .context import CONTEXT, Context
from .entry import Order
from .generation import Generation, Piece
from .middleware import BROKEN_BY, MODEL, as_service_error
from .schemas import ChatCompletionRequest, parse_chat_completion
from .stream import Feed
from .transcript import Transcript


@dataclass(frozen=True)
class Call:
    """One request as its two ways of answering need it."""

    request: web.Request
    asked: ChatCompletionRequest
    answer: openai.Answer
    generation: Generation
    prompt_tokens: int
    patience_s: float

    def usage(self) -> dict[str, object]:
        generation = self.generation
        return openai.usage(self.prompt_tokens, generation.completion_tokens, generation.cached_tokens)


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """Raises the `ServiceError` that says why there is no answer, unless the answer has begun."""
    arrived_at = time.monotonic()
    context = request.app[CONTEXT]
    asked = parse_chat_completion(await request.read())
    context.require_model(asked.model)
    request[MODEL] = context.model_name
    with context.admitted():
        async with _open(request, context, asked, arrived_at) as call:
            return await (_stream(call) if asked.stream else _whole(call))


@contextlib.asynccontextmanager
async def _open(
    request: web.Request, context: Context, asked: ChatCompletionRequest, arrived_at: float
) -> AsyncIterator[Call]:
    """The request is in the ledger for as long as somebody is here to read its answer."""
    text = context.text.model
    prompt = await context.text.encode(asked.messages)
    order = Order(
        id=openai.completion_id(),
        prompt=prompt,
        sampling=openai.sampling(asked),
        max_tokens=output_bound(len(prompt), asked.output_tokens, context.server, context.context_tokens),
        stop_ids=text.stop_ids,
        arrived_at=arrived_at,
    )
    feed = Feed(context.server.max_buffered_events, on_overflow=lambda: _cut(request))
    transcript = Transcript(text.detokenizer(), asked.stop or ())
    call = Call(
        request=request,
        asked=asked,
        answer=openai.Answer(order.id, context.model_name, int(time.time())),
        generation=Generation(order.id, context.ledger, feed, transcript),
        prompt_tokens=len(prompt),
        patience_s=context.server.keepalive_s,
    )
    try:
        context.ledger.add(order, feed)
        yield call
    finally:
        # Nothing happens if the request has ended; if not, its client has left.
        context.ledger.cancel(order.id)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _whole(call: Call) -> web.Response:
    pieces: list[str] = []
    while True:
        piece = await call.generation.next(call.patience_s)
        if piece is None:
            continue
        pieces.append(piece.text)
        if piece.finish is not None:
            body = call.answer.completion("".join(pieces), piece.finish, call.usage())
            return web.Response(body=body, content_type="application/json")


async def _stream(call: Call) -> web.StreamResponse:
    """Server-sent events. Until the engine has begun, an error still gets a status of its own."""
    piece = await call.generation.next(call.patience_s)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(call.request)
    try:
        await _relay(call, response, piece)
    except ConnectionResetError:
        raise
    except Exception as error:
        call.request[BROKEN_BY] = as_service_error(call.request, error)
        await response.write(openai.error_event(call.request[BROKEN_BY].body()))
    await response.write_eof()
    return response


async def _relay(call: Call, response: web.StreamResponse, piece: Piece | None) -> None:
    """One write for all that has come since the last one: a slow reader slows its own stream alone."""
    chunks = openai.Chunks(call.answer, call.asked.include_usage)
    await response.write(chunks.role())
    while True:
        if piece is None:
            await response.write(openai.KEEPALIVE)
        elif piece.finish is not None:
            await response.write(_last_events(call, chunks, piece, piece.finish))
            return
        elif piece.text:
            await response.write(chunks.text(piece.text))
        piece = await call.generation.next(call.patience_s)


def _last_events(call: Call, chunks: openai.Chunks, piece: Piece, reason: FinishReason) -> bytes:
    text = chunks.text(piece.text) if piece.text else b""
    usage = chunks.usage(call.usage()) if call.asked.include_usage else b""
    return text + chunks.finish(reason) + usage + openai.DONE

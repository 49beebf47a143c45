"""Small servers of the two APIs that say what a test wants, for the load client to talk to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from stoker.soak.target import Target

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def chunk(text: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a chat completion."""
    delta = {} if text is None else {"content": text}
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


def usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    """As OpenAI's API counts."""
    details = {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}


def event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


async def stream(request: web.Request, *parts: bytes | asyncio.Event) -> web.StreamResponse:
    """An answer that sends these, and waits at each event."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for part in parts:
        if isinstance(part, bytes):
            await response.write(part)
        else:
            await part.wait()
    await response.write_eof()
    return response


def answering(*parts: bytes) -> Handler:
    """The same answer to everyone."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, *parts)

    return answer


HELLO = answering(
    chunk("Hello"), chunk(" world."), chunk(finish="stop"), event({"choices": [], "usage": usage(10, 3, 4)}),
    b"data: [DONE]\n\n",
)  # fmt: skip


@contextlib.asynccontextmanager
async def serving(chat: Handler, messages: Handler = HELLO) -> AsyncIterator[Target]:
    """A server with these two endpoints."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/messages", messages)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield Target(f"http://127.0.0.1:{port}", "default")
    finally:
        await runner.cleanup()

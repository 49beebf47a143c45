"""A whole server for comparisons: answers every question with the same words; `--break` ends it before it is ready.

`python -m tests.soak.tiny_server PORT [--break] [--gap-s S]`
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from aiohttp import web

from tests.soak.servers import chunk, event, usage


async def health(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "tiny"}]})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--break", dest="broken", action="store_true")
    parser.add_argument("--gap-s", type=float, default=0.001)
    asked = parser.parse_args()
    if asked.broken:
        sys.exit("no model here")

    async def chat(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for word in ("One", " two", " three"):
            await response.write(chunk(word))
            await asyncio.sleep(asked.gap_s)
        await response.write(chunk(finish="stop") + event({"choices": [], "usage": usage(20, 3, 5)}))
        return response

    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/chat/completions", chat)
    web.run_app(app, host="127.0.0.1", port=asked.port, print=None)


if __name__ == "__main__":
    main()

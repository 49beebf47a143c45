"""A client of the API that watches its own stream: what it has so far, and when more comes."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp

DEADLINE_S = 60.0


def chat_body(content: str, **settings: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": content}], **settings}


class ChatFailed(Exception):
    """The API answered with an error, or a stream ended without its end; the message is what it said."""


class Chat:
    """One request and its answer. `run` reads it to its end; meanwhile `text` grows."""

    def __init__(self, api: str, body: dict[str, Any]) -> None:
        self._url = f"{api}/v1/chat/completions"
        self._body = body
        self._grew = asyncio.Event()
        self.text = ""
        self.arrivals: list[float] = []
        """When each piece of a streamed text came, on the monotonic clock."""
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] = {}
        """Of a stream only with `stream_options`."""

    async def run(self, http: aiohttp.ClientSession) -> str:
        """The whole text. Raises `ChatFailed`, or aiohttp's errors when the connection is lost."""
        async with http.post(self._url, json=self._body) as response:
            if response.status != 200:
                raise ChatFailed(f"{response.status} {await response.text()}")
            if self._body.get("stream"):
                async for line in response.content:
                    self._take(line)
            else:
                answer = await response.json()
                choice, self.usage = answer["choices"][0], answer["usage"]
                self.text, self.finish_reason = choice["message"]["content"], choice["finish_reason"]
        if self.finish_reason is None:
            raise ChatFailed(f"the stream ended without its end after {self.text!r}")
        return self.text

    async def until(self, characters: int) -> None:
        """Wait until so much of a streamed answer is here."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.text) < characters:
                self._grew.clear()
                await self._grew.wait()

    def _take(self, line: bytes) -> None:
        if not line.startswith(b"data: {"):
            return
        event = json.loads(line[len(b"data: ") :])
        if "error" in event:
            raise ChatFailed(json.dumps(event["error"]))
        for choice in event["choices"]:
            if piece := choice["delta"].get("content"):
                self.text += piece
                self.arrivals.append(time.monotonic())
            self.finish_reason = choice["finish_reason"] or self.finish_reason
            self._grew.set()
        self.usage = event.get("usage") or self.usage


async def ask(api: str, body: dict[str, Any]) -> str:
    """The whole text of one answer, on a connection of its own."""
    async with aiohttp.ClientSession() as http:
        return await Chat(api, body).run(http)

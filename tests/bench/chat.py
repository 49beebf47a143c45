"""A chat client for benchmarks: what any server of the OpenAI API says to streamed questions, and how fast."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: its text and how many tokens the server says it has."""

    text: str
    tokens: int


class ChatClient:
    """One server's `/v1/chat/completions`; `model` and `options` go into every request's body."""

    def __init__(self, url: str, model: str, **options: Any) -> None:
        self._url = url
        self._options = {"model": model, **options}
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None), connector=aiohttp.TCPConnector(limit=0)
        )

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, messages: Messages, max_tokens: int, **options: Any) -> Reply:
        """One streamed answer, read to its end; greedy unless an option says otherwise."""
        body: dict[str, Any] = {
            "messages": messages,
            "temperature": 0,
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._options,
            **options,
        }
        text, tokens = "", 0
        async with self._session.post(f"{self._url}/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.content:
                if line.startswith(b"data: {"):
                    chunk = json.loads(line[6:])
                    text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
                    tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
        return Reply(text, tokens)

    async def tokens_per_second(self, questions: Sequence[str], max_tokens: int, **options: Any) -> float:
        """All questions at once as streams: the rate from the first request to the last byte."""
        started = time.perf_counter()
        asked = (self.ask([{"role": "user", "content": text}], max_tokens, **options) for text in questions)
        replies = await asyncio.gather(*asked)
        return sum(reply.tokens for reply in replies) / (time.perf_counter() - started)

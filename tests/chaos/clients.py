"""Clients that send the next request as soon as the last one has ended, and write down what they got."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from tests.chaos.workload import Request
from tests.e2e.chatting import Chat, ChatFailed


@dataclass(frozen=True)
class Answer:
    """What came of one request; times are of the monotonic clock. `error` is None when all went well."""

    request: Request
    text: str
    began: float
    ended: float
    arrivals: tuple[float, ...]
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    error: str | None = None


async def ask_all(api: str, requests: Sequence[Request], at_once: int) -> list[Answer]:
    """Every request once, so many at a time."""
    room = asyncio.Semaphore(at_once)

    async def ask(http: aiohttp.ClientSession, request: Request) -> Answer:
        async with room:
            return await _ask(http, api, request)

    async with _session() as http:
        return list(await asyncio.gather(*(ask(http, request) for request in requests)))


async def ask_without_pause(
    api: str, requests: Sequence[Request], seed: int, clients: int, stop: asyncio.Event
) -> list[Answer]:
    """What `clients` clients got from when this is called until `stop`; none leaves an answer unfinished."""
    answers: list[Answer] = []

    async def client(http: aiohttp.ClientSession, number: int) -> None:
        draw = random.Random(f"{seed}-{number}")
        while not stop.is_set():
            answers.append(await _ask(http, api, draw.choice(requests)))

    async with _session() as http, asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(client(http, number))
    return answers


async def _ask(http: aiohttp.ClientSession, api: str, request: Request) -> Answer:
    chat = Chat(api, request.body())
    began = time.monotonic()
    error = None
    try:
        await chat.run(http)
    except (ChatFailed, aiohttp.ClientError, TimeoutError) as problem:
        error = f"{type(problem).__name__}: {problem}"
    return Answer(
        request=request,
        text=chat.text,
        began=began,
        ended=time.monotonic(),
        arrivals=tuple(chat.arrivals),
        finish_reason=chat.finish_reason,
        prompt_tokens=chat.usage.get("prompt_tokens", 0),
        completion_tokens=chat.usage.get("completion_tokens", 0),
        error=error,
    )


def _session() -> aiohttp.ClientSession:
    """Each request on a connection of its own: one that the server closes in between is no failure of an answer."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=600), connector=aiohttp.TCPConnector(force_close=True)
    )

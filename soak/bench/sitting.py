"""One sitting: load on a target for a while, with canaries and a look at its memory beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from ..errors import TargetUnusable
from ..exchange import Exchange, Request, session
from ..load import DEADLINE_S, drive
from ..outcome import Outcome
from ..target import Target
from ..wire import WIRES
from ..workloads.conversation import Conversation, Message, Turn, Workload
from . import memory
from .figures import Seen

LOOK_EVERY_S = 1.0
CANARY_EVERY_S = 2.0
CANARY_DEADLINE_S = 30.0
"""A canary that waits behind a long prompt is late, not dead."""
_CANARY = Conversation("canary", 0, (Turn((Message("user", "Say yes."),), 1),))


@dataclass(frozen=True, slots=True)
class Watched:
    """What can be known of the target beside what it answers: a process, its metrics, how often its engine died."""

    pid: Callable[[], int | None] = lambda: None
    metrics_urls: tuple[str, ...] = ()
    deaths: Callable[[], int] | None = None
    """So far; None: only its metrics can tell."""


async def sit(
    target: Target, workload: Workload, seconds: float, watched: Watched, deadline_s: float = DEADLINE_S
) -> Seen:
    """Load for so long; then what runs is finished."""
    outcomes: list[Outcome] = []
    began = time.monotonic()
    async with session() as http:
        beside = _Beside(http, target, watched)
        deaths_before = await beside.deaths()
        watching = [asyncio.create_task(beside.look()), asyncio.create_task(beside.ask_canaries())]
        try:
            lag = await drive(
                target,
                workload,
                on_outcome=outcomes.append,
                until=seconds,
                clock=lambda: time.monotonic() - began,
                deadline_s=deadline_s,
            )
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        deaths = await beside.deaths()
    died = None if deaths is None else deaths - (deaths_before or 0)
    return Seen(tuple(outcomes), seconds, lag, tuple(beside.canaries), tuple(beside.memory_bytes), died)


class _Beside:
    def __init__(self, http: aiohttp.ClientSession, target: Target, watched: Watched) -> None:
        self._http = http
        self._canary = Exchange(http, target, time.monotonic, CANARY_DEADLINE_S)
        self._watched = watched
        self.canaries: list[bool] = []
        self.memory_bytes: list[int] = []

    async def look(self) -> None:
        """At the memory, until cancelled."""
        while True:
            pid = self._watched.pid()
            seen = memory.of_processes(pid) if pid is not None else await self._scraped_memory()
            if seen is not None:
                self.memory_bytes.append(seen)
            await asyncio.sleep(LOOK_EVERY_S)

    async def ask_canaries(self) -> None:
        """The smallest question at equal distances, whether the one before was answered or not; until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._ask_canary())
                await asyncio.sleep(CANARY_EVERY_S)

    async def _ask_canary(self) -> None:
        turn = _CANARY.turns[0]
        outcome, _ = await self._canary.ask(Request(_CANARY, 0, list(turn.adds), time.monotonic()))
        self.canaries.append(outcome.ok)

    async def _scraped_memory(self) -> int | None:
        scrapes = [await memory.scraped(self._http, url) for url in self._watched.metrics_urls]
        return next((scrape.memory_bytes for scrape in scrapes if scrape.memory_bytes is not None), None)

    async def deaths(self) -> int | None:
        """So far, by whoever can tell."""
        if self._watched.deaths is not None:
            return self._watched.deaths()
        scrapes = [await memory.scraped(self._http, url) for url in self._watched.metrics_urls]
        return next((scrape.engine_restarts for scrape in scrapes if scrape.engine_restarts is not None), None)


async def served_model(target_url: str, key: str | None) -> str:
    """The first model that the target lists. Raises `TargetUnusable`."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        async with (
            session() as http,
            http.get(f"{target_url}/v1/models", headers=headers, timeout=aiohttp.ClientTimeout(total=10)) as response,
        ):
            response.raise_for_status()
            listed = await response.json()
            return str(listed["data"][0]["id"])
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise TargetUnusable(
            f"{target_url}/v1/models names no model ({type(error).__name__}: {error}); is it running there? "
            "Name one with `--model` if it lists none"
        ) from error


async def warm_up(target: Target, streams: int) -> None:
    """A few short answers at once, so that what is slow once is not measured. Raises `TargetUnusable`."""
    async with session() as http:
        exchange = Exchange(http, target, time.monotonic, DEADLINE_S)
        asked = (
            Conversation("warm-up", number, (Turn((Message("user", f"Count from {number} to a hundred."),), 16),))
            for number in range(streams)
        )
        requests = [Request(each, 0, list(each.turns[0].adds), time.monotonic()) for each in asked]
        answers = await asyncio.gather(*(exchange.ask(request) for request in requests))
    for outcome, _ in answers:
        if not outcome.ok:
            path = target.url + WIRES[target.api].path
            raise TargetUnusable(f"{path} does not answer: {outcome.failure}: {outcome.error}")

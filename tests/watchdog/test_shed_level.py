"""What the service is told about load to turn away, and when: a real HTTP server stands in for the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.watchdog.shed_level import ShedLevel
from stoker.watchdog.supervisor import State, Supervisor
from tests.watchdog.test_supervisor import DEADLINE_S, LIVES, Script, supervised

TOKEN = "let-me-in"


class Told:
    """A service that keeps what it is told, and answers the first few times with `failures`."""

    def __init__(self, *failures: int) -> None:
        self.bodies: asyncio.Queue[Any] = asyncio.Queue()
        self._failures = list(failures)

    async def put_shed(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        if self._failures:
            return web.Response(status=self._failures.pop())
        self.bodies.put_nowait(await request.json())
        return web.json_response({})

    async def next(self) -> Any:
        async with asyncio.timeout(DEADLINE_S):
            return await self.bodies.get()


@asynccontextmanager
async def telling(told: Told, supervisor: Supervisor, levels: list[int]) -> AsyncIterator[ShedLevel]:
    app = web.Application()
    app.router.add_put("/internal/shed", told.put_shed)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        shed = ShedLevel(supervisor, lambda: str(server.make_url("")), TOKEN, http, levels.append)
        task = asyncio.create_task(shed.run())
        yield shed
        task.cancel()


async def test_the_service_is_told_each_change_and_again_when_it_is_new() -> None:
    levels: list[int] = []
    told = Told()
    async with supervised(Script(LIVES)) as supervisor, telling(told, supervisor, levels) as shed:
        assert (await told.next())["level"] == 0
        shed.want(2, "memory is short")
        assert await told.next() == {"level": 2, "reason": "memory is short"}
        shed.want(2, "memory is short")
        await supervisor.until(State.READY)
        supervisor.restart()
        assert await told.next() == {"level": 2, "reason": "memory is short"}
        shed.want(0, "it is over")
        assert (await told.next())["level"] == 0
    assert levels == [0, 2, 0]
    assert told.bodies.empty()


async def test_a_service_that_does_not_take_it_is_told_again() -> None:
    told = Told(500, 404)
    async with supervised(Script(LIVES)) as supervisor, telling(told, supervisor, []) as shed:
        shed.want(1, "memory is short")
        assert (await told.next())["level"] == 1


async def test_while_there_is_no_service_only_the_last_word_counts() -> None:
    told = Told()
    role = Script("input()", LIVES)
    async with supervised(role) as supervisor, telling(told, supervisor, []) as shed:
        await supervisor.until(State.STARTING)
        for level in (1, 2, 3):
            shed.want(level, "memory is short")
        supervisor.restart()
        assert (await told.next())["level"] == 3
    assert told.bodies.empty()


async def test_a_drain_stands_above_what_is_decided_until_it_ends() -> None:
    levels: list[int] = []
    told = Told()
    async with supervised(Script(LIVES)) as supervisor, telling(told, supervisor, levels) as shed:
        assert (await told.next())["level"] == 0
        shed.want(1, "memory is short")
        assert (await told.next())["level"] == 1
        shed.drain("drained")
        assert await told.next() == {"level": 3, "reason": "drained"}
        shed.want(2, "memory is shorter")
        assert shed.wanted.reason == "drained"
        shed.resume()
        assert await told.next() == {"level": 2, "reason": "memory is shorter"}
    assert levels == [0, 1, 3, 2]

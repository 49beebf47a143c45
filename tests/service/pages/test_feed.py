"""The one producer: what each page is sent, and what costs nothing while nobody looks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from stoker.service.pages.feed import Feed, Follower
from stoker.service.pages.live import Cache, Live
from stoker.service.pages.requests import Row
from stoker.service.pages.watchdog import WatchdogReader
from stoker.watchdog.ports import ListeningSocket

DEADLINE_S = 20.0
CHILD = {"state": "ready", "restarts": 0, "last_restart": None, "failure": None}
STATUS = {
    "ready": True,
    "version": "1",
    "home": "/secret/home",
    "started_at": "2026-01-02T03:04:05Z",
    "engines": [{**CHILD, "name": "default", "epoch": 3, "pid": 12}],
    "service": CHILD,
    "shed": {"level": 0, "reason": "nothing is short"},
}
ANSWERS: dict[str, Any] = {
    "/status": STATUS,
    "/look": {"sample": {"at": 1, "wall": 2, "host": {"swap_used_bytes": 5}}, "verdicts": []},
    "/alerts": {"quiet_until": None, "targets": [{"name": "pager"}]},
    "/uptime": [{"since": 0, "until": 1, "uptime": {"up_s": 1, "down_s": 0, "off_s": 0}, "engine_starts": 1}],
    "/incidents": {"incidents": [], "uptime": {"up_s": 1, "down_s": 0, "off_s": 0}},
}
NOTHING_CACHED = Cache({}, 0, {})


class Service:
    """What the feed reads; `at` is all that changes by itself."""

    def __init__(self) -> None:
        self.looks = 0
        self.rows: list[Row] = []
        self.broken = False

    def look(self, tokens_per_s: float) -> Live:
        self.looks += 1
        if self.broken:
            raise ArithmeticError
        return Live(self.looks, "tiny", None, 0, 0, 0, tokens_per_s, None, None, NOTHING_CACHED)

    def feed(self, watchdog: WatchdogReader | None = None) -> Feed:
        return Feed(self.look, lambda: self.rows, lambda: 0.0, watchdog)


@asynccontextmanager
async def running(feed: Feed) -> AsyncIterator[None]:
    task = asyncio.create_task(feed.run())
    await asyncio.sleep(0)  # It has begun.
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def watchdog(answers: dict[str, Any]) -> AsyncIterator[tuple[str, list[str]]]:
    """One that only pretends: its address, and what it was asked."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=msgspec.json.encode(answers[request.path]))

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner, listening = web.AppRunner(app), ListeningSocket("127.0.0.1", 0, "")
    await runner.setup()
    await web.SockSite(runner, listening.open()).start()
    try:
        yield listening.url, asked
    finally:
        await runner.cleanup()
        listening.close()


def read(events: bytes) -> list[tuple[str, Any]]:
    """Kind and content of each event."""
    parts = [part.split(b"\n") for part in events.split(b"\n\n") if part.startswith(b"event: ")]
    return [(kind.removeprefix(b"event: ").decode(), json.loads(data.removeprefix(b"data: "))) for kind, data in parts]


async def until(follower: Follower, wanted: Callable[[str, Any], bool]) -> Any:
    """The content of the first event that is wanted."""
    async with asyncio.timeout(DEADLINE_S):
        async for events in follower.events():
            for kind, content in read(events):
                if wanted(kind, content):
                    return content
    raise AssertionError("the stream ended")


async def first(follower: Follower, kind: str) -> Any:
    return await until(follower, lambda found, _: found == kind)


async def test_a_page_gets_all_that_is_known_at_once() -> None:
    service = Service()
    with service.feed().following() as follower:
        events = await anext(follower.events())
    assert [kind for kind, _ in read(events)] == ["history", "live", "requests"]


async def test_all_pages_share_one_picture() -> None:
    service = Service()
    feed = service.feed()
    with feed.following(), feed.following(), feed.following() as last:
        opened = service.looks
        async with running(feed):
            await until(last, lambda kind, content: kind == "live" and content["at"] > opened)
            assert service.looks - opened <= 2


async def test_what_has_not_changed_is_not_sent_again() -> None:
    service = Service()
    feed = service.feed()
    with feed.following() as one:
        await anext(one.events())
        with feed.following():
            assert [kind for kind, _ in read(await anext(one.events()))] == ["live"]


async def test_a_page_that_reads_late_holds_the_latest_of_each_kind_alone() -> None:
    service = Service()
    feed = service.feed()
    with feed.following() as late:
        for _ in range(100):
            with feed.following():
                pass
        events = read(await anext(late.events()))
    assert [content["at"] for kind, content in events if kind == "live"] == [101]


async def test_the_watchdog_is_asked_only_while_somebody_looks() -> None:
    async with watchdog(ANSWERS) as (url, asked):
        feed = Service().feed(WatchdogReader(url))
        async with running(feed):
            assert asked == []
            with feed.following() as follower:
                assert (await first(follower, "past"))["uptime"]["up_s"] == 1
            assert asked == ["/status", "/look", "/alerts", "/uptime", "/incidents"]


async def test_three_days_are_read_again_when_something_has_happened() -> None:
    answers = dict(ANSWERS)
    async with watchdog(answers) as (url, asked):
        feed = Service().feed(WatchdogReader(url))
        async with running(feed):
            with feed.following() as follower:
                await first(follower, "past")
                answers["/status"] = {**STATUS, "ready": False}
                answers["/incidents"] = {**ANSWERS["/incidents"], "uptime": {"up_s": 2, "down_s": 0, "off_s": 0}}
                await until(follower, lambda kind, content: kind == "past" and content["uptime"]["up_s"] == 2)
            assert asked.count("/incidents") == 2


async def test_nothing_of_the_watchdog_but_what_is_shown_gets_out() -> None:
    async with watchdog(ANSWERS) as (url, _):
        feed = Service().feed(WatchdogReader(url))
        async with running(feed):
            with feed.following() as follower:
                told = await first(follower, "watchdog")
    assert "secret" not in json.dumps(told)
    assert told["look"]["sample"] == {"host": {"swap_used_bytes": 5}}


async def test_a_watchdog_that_says_nothing_sensible_is_said_to_be_silent() -> None:
    for answers in ({**ANSWERS, "/status": "?"}, {**ANSWERS, "/status": {"ready": 3}}):
        async with watchdog(answers) as (url, _):
            feed = Service().feed(WatchdogReader(url))
            async with running(feed):
                with feed.following() as follower:
                    assert await first(follower, "watchdog") is None


async def test_a_picture_that_cannot_be_made_costs_that_picture_alone() -> None:
    service = Service()
    feed = service.feed()
    with feed.following() as follower:
        service.broken = True
        async with running(feed):
            service.broken = False
            await until(follower, lambda kind, content: kind == "live" and content["at"] > 2)


async def test_every_stream_ends_with_the_service() -> None:
    feed = Service().feed()
    with feed.following() as follower:

        async def read_on() -> None:
            async for _ in follower.events():
                pass

        reading = asyncio.create_task(read_on())
        async with running(feed):
            pass
        async with asyncio.timeout(DEADLINE_S):
            await reading
    with feed.following() as late:
        async with asyncio.timeout(DEADLINE_S):
            assert [events async for events in late.events()] == []

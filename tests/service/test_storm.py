"""More clients than there are places, most of them badly behaved: nobody hangs, and nothing is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

import aiohttp
import psutil

from stoker.config import Server, Simulated
from tests.service.rig import DEADLINE_S, Rig, ask, events, raw_connection, text_of

MAX_QUEUE = 96
LEAVERS = 64
SLOW_READERS = 8
OVER_THE_BOUND = 200


async def leave(rig: Rig, number: int, patience_s: float, stream: bool) -> None:
    """Send a request, and hang up after a while, whatever has come by then."""
    async with raw_connection(rig, ask(f"Leaver {number}", stream=stream)) as client:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while await asyncio.get_running_loop().sock_recv(client, 4096):
                    pass


async def read_slowly(rig: Rig, number: int, begun: asyncio.Event) -> str:
    async with rig.post(ask(f"Reader {number}", stream=True)) as response:
        stream = events(response)
        text = ""
        for _ in range(5):
            text += await text_of(stream, at_least=5)
            begun.set()
            await asyncio.sleep(0.2)
        return text + await text_of(stream)


async def knock(http: aiohttp.ClientSession, rig: Rig, number: int) -> int:
    """Status of a request by a client of its own; a refusal must say when to come back."""
    headers = {"Authorization": f"Bearer client {number % 7}"}
    body = ask(f"Knocker {number}", max_tokens=20)
    async with http.post(f"{rig.url}/v1/chat/completions", json=body, headers=headers) as response:
        await response.read()
        if response.status != 200:
            assert response.status in (429, 503)
            assert 1 <= int(response.headers["Retry-After"]) <= 60
        return response.status


async def test_after_a_storm_everybody_was_answered_and_nothing_is_left(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(
        server=Server(max_queue=MAX_QUEUE, drain_deadline_s=300.0),
        simulated=Simulated(step_s=0.002),
        max_running=8,
        max_waiting=8,
    )
    await rig.start()
    begun = [asyncio.Event() for _ in range(SLOW_READERS)]
    expected = await asyncio.gather(*(read_slowly(rig, number, event) for number, event in enumerate(begun)))
    assert rig.service is not None
    files = psutil.Process(rig.service.pid).num_fds()
    chance = random.Random(5)
    begun = [asyncio.Event() for _ in range(SLOW_READERS)]
    readers = [asyncio.create_task(read_slowly(rig, number, event)) for number, event in enumerate(begun)]
    # Who waits may have to give way to others; who has begun may not.
    await asyncio.gather(*(event.wait() for event in begun))
    leavers = [
        asyncio.create_task(leave(rig, number, chance.uniform(0.01, 2.0), stream=chance.random() < 0.7))
        for number in range(LEAVERS)
    ]
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=DEADLINE_S)
    ) as http:
        statuses = await asyncio.gather(*(knock(http, rig, number) for number in range(MAX_QUEUE + OVER_THE_BOUND)))
    assert await asyncio.gather(*readers) == expected, "who reads slowly gets all of it"
    await asyncio.gather(*leavers)
    assert statuses.count(200) > 0
    assert statuses.count(429) >= OVER_THE_BOUND
    for gauge in ("stoker_requests_running", "stoker_requests_waiting", "stoker_engine_batch_size"):
        await rig.until_metric(gauge, 0)
    await rig.until_files(files)
    rig.service.terminate()
    async with asyncio.timeout(DEADLINE_S):
        assert await rig.service.wait() == 0, "whoever was forgotten inside would be waited for"

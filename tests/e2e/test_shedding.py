"""Load is turned away while the engine's memory is short, and taken again when it is not."""

from __future__ import annotations

import asyncio
import os
import signal

import aiohttp
import pytest

from tests.e2e.chatting import Chat, ChatFailed, ask, chat_body
from tests.e2e.conftest import ServeTree
from tests.e2e.running import DEADLINE_S, SIMULATED, stoker

# A request of some two hundred tokens is most of what there is; a small one is a tenth.
SMALL_MEMORY = (
    SIMULATED
    + "[watchdog.shedding]\nhold_s = 0.3\n"
    + "[engine.simulated]\nstep_s = 0.02\ntoken_bytes = 1000\nmemory_limit_bytes = 500000\n"
)
LONG = chat_body("A long text. " * 36, seed=5, max_tokens=300, stream=True)
SMALL = chat_body("Hello", seed=2, max_tokens=5)


async def test_new_requests_are_shed_while_memory_is_short_and_served_again_after(serve_tree: ServeTree) -> None:
    tree = serve_tree(SMALL_MEMORY)
    before = await ask(tree.api, SMALL)
    long = Chat(tree.api, LONG)
    async with aiohttp.ClientSession() as http:
        answer = asyncio.create_task(long.run(http))
        status = await asyncio.to_thread(tree.until, lambda status: status.shed.level == 3)
        assert status.shed.reason.startswith("the engine uses ")
        # At once: it lasts no longer than the long answer.
        told = asyncio.create_task(asyncio.to_thread(stoker, tree.home, "status"))
        with pytest.raises(ChatFailed, match=r"503 .*the engine uses.*overloaded"):
            await ask(tree.api, SMALL)
        table = " ".join((await told).stdout.split())
        assert f"shed level 3 of 3: {status.shed.reason}" in table
        assert await answer
    await asyncio.to_thread(tree.until, lambda status: status.shed.level == 0 and status.ready)
    assert await ask(tree.api, SMALL) == before


async def test_a_new_service_is_told_what_the_last_one_knew(serve_tree: ServeTree) -> None:
    tree = serve_tree(SMALL_MEMORY.replace("hold_s = 0.3", "hold_s = 60.0"))
    async with aiohttp.ClientSession() as http:
        answer = asyncio.create_task(Chat(tree.api, LONG).run(http))
        status = await asyncio.to_thread(tree.until, lambda status: status.shed.level == 3)
        assert status.service.pid is not None
        os.kill(status.service.pid, signal.SIGKILL)
        with pytest.raises(aiohttp.ClientError):
            await answer
    await asyncio.to_thread(tree.until, lambda status: status.service.restarts == 1)
    # It lives before it has been told, and refuses for other reasons before the engine is connected.
    await eventually_refused(tree.api)


async def eventually_refused(api: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await ask(api, SMALL)
            except ChatFailed as failure:
                if "overloaded" in str(failure):
                    return

"""Faults of the real tree that alerts should find: a kill loop, a leak, load that is shed, a canary unanswered."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from urllib.parse import urlsplit

import aiohttp

from tests.e2e.chatting import Chat, chat_body
from tests.e2e.running import RunningTree
from tests.e2e.test_detection import under_load

KILLS = 4
ORDINARY = """
[server]
port = 0
[engine]
kind = "simulated"
heartbeat_s = 0.05
[engine.simulated]
step_s = 0.05
token_bytes = 1000
memory_limit_bytes = 500_000
[watchdog]
port = 0
stall_after_s = 60.0
[watchdog.canary]
every_s = 1.0
recheck_s = 0.2
deadline_s = 2.0
[watchdog.shedding]
hold_s = 0.3
[watchdog.restart]
intensity = 50
"""
LEAKING = """
[server]
port = 0
[engine]
kind = "simulated"
heartbeat_s = 0.02
[engine.simulated]
step_s = 0.002
memory_limit_bytes = 800_000_000
faults = [{ kind = "leak", amount = 200_000, epochs = 1 }]
[watchdog]
port = 0
sample_s = 0.03
detection_speed = 480
pool_floor_bytes = 20_000_000
"""
LONG = chat_body("A long text. " * 36, seed=5, max_tokens=300, stream=True)


def scraped_at(tree: RunningTree) -> list[tuple[str, str]]:
    """The jobs of a tree, as rules and boards expect them."""
    return [
        ("stoker-service", urlsplit(tree.api).netloc),
        ("stoker-watchdog", urlsplit(tree.client.serving.watchdog).netloc),
    ]


async def kill_again_and_again(tree: RunningTree) -> None:
    """Each time as soon as the engine is ready."""
    epoch = tree.engine().epoch
    for _ in range(KILLS):
        engine = await asyncio.to_thread(tree.until_ready, epoch)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        epoch += 1
    await asyncio.to_thread(tree.until_ready, epoch)


@contextlib.contextmanager
def frozen_engine(tree: RunningTree) -> Iterator[None]:
    """No canary is answered within the block."""
    pid = tree.engine().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def short_of_memory(tree: RunningTree) -> None:
    """A long answer for which there is hardly room; returns at its end."""
    async with aiohttp.ClientSession() as http:
        await Chat(tree.api, LONG).run(http)


__all__ = ["under_load"]

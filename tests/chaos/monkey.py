"""Kills the engine at random moments, and writes down when, and how long it took to come back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass

from tests.e2e.running import RunningTree


@dataclass(frozen=True)
class Kill:
    """`at` is of the monotonic clock; `ready_after_s` is from the engine's death until it was ready again."""

    at: float
    ready_after_s: float


async def kill_engines(tree: RunningTree, seed: int, pause_s: tuple[float, float], stop: asyncio.Event) -> list[Kill]:
    """SIGKILL, wait until all is ready again, pause for a random time within the bounds, until `stop`."""
    draw = random.Random(seed)
    kills: list[Kill] = []
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(draw.uniform(*pause_s)):
                await stop.wait()
        if stop.is_set():
            return kills
        kills.append(await asyncio.to_thread(_kill, tree))


def _kill(tree: RunningTree) -> Kill:
    engine = tree.engine()
    assert engine.pid is not None, f"the engine is {engine.state}: {engine.failure}"
    at = time.monotonic()
    os.kill(engine.pid, signal.SIGKILL)
    restart = tree.until_ready(engine.epoch + 1).last_restart
    assert restart is not None
    assert restart.ready_after_s is not None
    return Kill(at, restart.ready_after_s)

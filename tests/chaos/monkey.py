"""Kills the engine at random moments, and writes down when, and how long it took to come back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
import urllib.request
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from stoker.watchdog.metrics import ENGINE_START_SECONDS
from tests.e2e.running import RunningTree


@dataclass(frozen=True)
class Kill:
    """`at` is of the monotonic clock; `ready_after_s` is from the engine's death until it was ready again, of which
    `start_s` was the new process's start and its model's loading. `epoch` is the incarnation that came after."""

    at: float
    ready_after_s: float
    start_s: float
    epoch: int


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
    before_s = _started_s(tree)
    at = time.monotonic()
    os.kill(engine.pid, signal.SIGKILL)
    epoch = engine.epoch + 1
    restart = tree.until_ready(epoch).last_restart
    assert restart is not None
    assert restart.ready_after_s is not None
    return Kill(at, restart.ready_after_s, _started_s(tree) - before_s, epoch)


def _started_s(tree: RunningTree) -> float:
    """What all starts of the engine took so far, from spawn to ready."""
    with urllib.request.urlopen(f"{tree.client.serving.watchdog}/metrics") as response:
        families = text_string_to_metric_families(response.read().decode())
    samples = (sample for family in families for sample in family.samples)
    return next(sample.value for sample in samples if sample.name == f"{ENGINE_START_SECONDS}_sum")

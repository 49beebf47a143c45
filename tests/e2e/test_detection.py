"""The whole loop on real processes, in fast time: memory goes wrong with real arrays, and what should happen does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from stoker.watchdog.journal.records import IncidentTold
from tests.e2e.chatting import chat_body
from tests.e2e.conftest import ServeTree
from tests.e2e.running import RunningTree, eventually

CLIENTS = 3
BURST = 8
PAUSE_S = 0.4
"""Between two bursts: longer than a quiet minute, sped up."""

FAST = """
[server]
port = 0
[engine]
model = "{model}"
context_tokens = 512
heartbeat_s = 0.02
prefix_cache_ram_bytes = 20_000_000
prefix_cache_disk_bytes = 0
memory_limit_bytes = 800_000_000
cache_limit_bytes = 100_000_000
faults = [{faults}]
[watchdog]
port = 0
sample_s = 0.03
detection_speed = 480
pool_floor_bytes = 20_000_000
"""


class Load:
    """Clients that ask in bursts, all with the same pauses; `failures` is what went wrong for any of them."""

    def __init__(self, tree: RunningTree) -> None:
        self._url = f"{tree.api}/v1/chat/completions"
        self.answered = 0
        self.failures: list[str] = []

    async def run(self) -> None:
        async with aiohttp.ClientSession() as http:
            while True:
                async with asyncio.TaskGroup() as burst:
                    for client in range(CLIENTS):
                        burst.create_task(self._ask(http, client))
                await asyncio.sleep(PAUSE_S)

    async def _ask(self, http: aiohttp.ClientSession, client: int) -> None:
        for number in range(BURST):
            body = chat_body(f"Tell me about {client}.{number}.", seed=number, max_tokens=16)
            async with http.post(self._url, json=body) as response:
                if response.status == 200:
                    self.answered += 1
                else:
                    self.failures.append(await response.text())


@contextlib.asynccontextmanager
async def under_load(tree: RunningTree) -> AsyncIterator[Load]:
    load = Load(tree)
    task = asyncio.create_task(load.run())
    try:
        yield load
        assert not task.done() or task.exception() is None, task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def incidents(tree: RunningTree, kind: str) -> list[IncidentTold]:
    return [told for told in tree.client.past(3600).incidents if told.incident.kind == kind]


def actions(tree: RunningTree, kind: str) -> list[str]:
    return [action.kind for told in incidents(tree, kind) for action in told.actions if action.outcome is not None]


@pytest.mark.timeout(180)
async def test_a_leak_is_found_explained_and_ended_by_a_planned_restart_without_a_failed_request(
    serve_tree: ServeTree, tiny_model: Path
) -> None:
    leak = "{ kind = 'leak', amount = 200_000, epochs = 1 }"
    tree = serve_tree(FAST.format(model=tiny_model, faults=leak))
    async with under_load(tree) as load:
        await eventually(lambda: "PlannedRestart" in actions(tree, "leak") or "RestartNow" in actions(tree, "leak"))
        await asyncio.to_thread(tree.until_ready, 2)
        before = load.answered
        await eventually(lambda: load.answered > before + CLIENTS * BURST)
        await eventually(lambda: all(told.duration_s is not None for told in incidents(tree, "leak")))
    assert load.failures == []
    (told,) = incidents(tree, "leak")
    assert "grows whatever the load" in told.incident.summary
    assert told.incident.evidence["slope_lower_bound_bytes_per_hour"] > 0
    assert [action.kind for action in told.actions][:2] == ["Observe", "Reclaim"]
    memory = tree.engine().heartbeat
    assert memory is not None and memory.memory.active is not None
    assert memory.memory.active < 100_000_000


@pytest.mark.timeout(120)
async def test_a_pool_that_fragments_is_given_back_and_nothing_is_restarted(
    serve_tree: ServeTree, tiny_model: Path
) -> None:
    fragment = "{ kind = 'fragment', amount = 40_000 }"
    tree = serve_tree(FAST.format(model=tiny_model, faults=fragment))
    async with under_load(tree) as load:
        await eventually(lambda: "Reclaim" in actions(tree, "fragmentation"))
    assert load.failures == []
    assert tree.engine().epoch == 1
    told = incidents(tree, "fragmentation")[0]
    assert "MB were given back" in (told.actions[0].outcome or "")

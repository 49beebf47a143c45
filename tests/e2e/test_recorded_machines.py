"""A whole tree on machines that were recorded: heat and swap turn load away, and it comes back when they are over."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.chatting import chat_body
from tests.e2e.conftest import ServeTree
from tests.e2e.running import RunningTree
from tests.watchdog.sensors.trees import Tree

SWAP_BYTES = 8 * 1024**3
BATCH = {"x-stoker-priority": "batch"}
BODY = chat_body("Hello", seed=2, max_tokens=5)

ON_A_RECORDED_MACHINE = """
[engine]
kind = "simulated"
heartbeat_s = 0.05
[server]
port = 0
[watchdog]
port = 0
sample_s = 0.02
detection_speed = 300
[watchdog.sensors]
proc = "{machine.proc}"
sys = "{machine.sys}"
"""


@pytest.fixture
def machine(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path / "machine")
    tree.machine()
    return tree


async def status_of(tree: RunningTree, **headers: str) -> int:
    url = f"{tree.api}/v1/chat/completions"
    async with aiohttp.ClientSession() as http, http.post(url, json=BODY, headers=headers) as response:
        if response.status == 503:
            assert (await response.json())["error"]["code"] == "overloaded"
        return response.status


async def until_shed(tree: RunningTree, level: int) -> str:
    """Wait for the level, and for the service to keep to it; the reason."""
    status = await asyncio.to_thread(tree.until, lambda status: status.shed.level == level)
    async with asyncio.timeout(10):
        while await status_of(tree, **BATCH) != (503 if level else 200):  # noqa: ASYNC110  # another process's state
            await asyncio.sleep(0.02)
    assert await status_of(tree) == 200
    return status.shed.reason


def restarted(tree: RunningTree) -> bool:
    return tree.engine().epoch > 1


async def test_heat_turns_batch_requests_away_until_it_is_over(serve_tree: ServeTree, machine: Tree) -> None:
    machine.zone(0, 60.0, passive=80.0, hot=95.0)
    tree = serve_tree(ON_A_RECORDED_MACHINE.format(machine=machine))
    assert await status_of(tree, **BATCH) == 200
    machine.zone(0, 97.0, passive=80.0, hot=95.0)
    assert await until_shed(tree, 1) == "the system's thermal level is 2"
    machine.zone(0, 60.0, passive=80.0, hot=95.0)
    await until_shed(tree, 0)
    (told,) = [told for told in tree.client.past(3600).incidents if told.incident.kind == "thermal"]
    assert [action.kind for action in told.actions] == ["Tighten", "Shed", "Shed", "Tighten"][: len(told.actions)]
    assert not restarted(tree)


async def test_swap_that_the_engine_fills_turns_batch_requests_away_until_it_stops(
    serve_tree: ServeTree, machine: Tree
) -> None:
    tree = serve_tree(ON_A_RECORDED_MACHINE.format(machine=machine))
    engine = tree.engine().pid
    growing = asyncio.create_task(swap_out(machine, engine))
    try:
        reason = await until_shed(tree, 1)
    finally:
        growing.cancel()
    assert re.match(r"swap grew by \d+ MB in 3 minutes, mostly our own", reason)
    await until_shed(tree, 0)
    assert not restarted(tree)


async def swap_out(machine: Tree, pid: int | None) -> None:
    """Ever more of a process, until nothing is free."""
    used = 1_000_000_000
    while True:
        used = min(used + 4_000_000, SWAP_BYTES)
        machine.swap(used, SWAP_BYTES)
        machine.put(machine.proc / str(pid) / "smaps_rollup", f"Pss: 1000 kB\nSwapPss: {used // 1024} kB\n")
        await asyncio.sleep(0.01)

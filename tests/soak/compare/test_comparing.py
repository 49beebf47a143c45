"""Servers are started, measured and stopped in turn; one that fails or dies is reported and does not end the run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from stoker.soak.bench.report import Report
from stoker.soak.compare.comparing import compare
from stoker.soak.compare.stacks import Stack, Stacks
from stoker.soak.errors import StacksUnusable
from tests.e2e.running import STOKER, eventually, until_gone
from tests.tiny_models import make_tiny_llama

TINY = (sys.executable, "-m", "tests.soak.tiny_server", "{port}")


def stack(name: str, *arguments: str) -> Stack:
    return Stack(name=name, command=TINY, arguments=arguments)


async def compared(*stacks: Stack, **settings: Any) -> Report:
    chosen = {"seconds": 0.3, "repeats": 1, "streams": 2, "scale": 0.05, **settings}
    asked = Stacks(stack=stacks, **chosen)
    async with asyncio.timeout(50):
        return await compare(asked, "demo", lambda _: None)


def value(report: Report, key: str, column: int = 0, table: int = 0) -> float | None:
    row = next(row for row in report.tables[table].rows if row.key == key)
    cell = row.cells[column]
    return None if cell is None else cell.median


async def test_servers_are_measured_side_by_side_and_nothing_is_left_running() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    report = await compared(stack("quick"), stack("slow", "--gap-s", "0.05"), repeats=2)
    quick, slow = value(report, "tpot_p50", 0), value(report, "tpot_p50", 1)
    assert quick is not None
    assert slow is not None
    assert quick < 0.05 <= slow * 1.5
    for key in ("ttft_p50", "throughput", "memory", "cache_hits", "start"):
        assert (value(report, key, 0) or 0) > 0, key
    assert (value(report, "errors"), value(report, "crashes"), value(report, "uptime")) == (0.0, 0.0, 1.0)
    await eventually(lambda: {child.pid for child in psutil.Process().children(recursive=True)} <= before)


async def test_a_comparison_that_is_terminated_leaves_no_server_behind(tmp_path: Path) -> None:
    file = tmp_path / "stacks.toml"
    command = ", ".join(f'"{word}"' for word in TINY)
    model = make_tiny_llama(tmp_path / "model")
    file.write_text(f'model = "{model}"\nseconds = 600\n[[stack]]\nname = "tiny"\ncommand = [{command}]\n')
    comparison = await asyncio.create_subprocess_exec(STOKER, "compare", file, stderr=asyncio.subprocess.DEVNULL)
    running = psutil.Process(comparison.pid)
    await eventually(lambda: bool(running.children(recursive=True)))
    servers = [child.pid for child in running.children(recursive=True)]
    comparison.terminate()
    async with asyncio.timeout(50):
        assert await comparison.wait() == 143
    await until_gone(*servers)


async def test_a_server_that_does_not_start_is_reported_with_its_last_words() -> None:
    report = await compared(stack("good"), stack("broken", "--break"))
    assert value(report, "throughput", 0)
    assert value(report, "throughput", 1) is None
    assert any("broken ended before it was ready" in note and "no model here" in note for note in report.notes)


async def test_a_server_that_is_not_installed_is_left_out_and_said_to_be() -> None:
    absent = Stack(name="absent", command=("no-such-program-anywhere",))
    report = await compared(stack("good"), absent)
    assert report.tables[0].columns == ("good",)
    assert any("absent was left out" in note for note in report.notes)
    with pytest.raises(StacksUnusable, match="none of the servers is here"):
        await compared(absent)


async def test_a_server_that_is_killed_and_does_not_come_back_shows_it() -> None:
    report = await compared(stack("mortal"), kill_seconds=1.5)
    assert (value(report, "crashes", table=1) or 0) > 0
    assert (value(report, "errors", table=1) or 0) > 0
    # Before that it was whole.
    assert value(report, "errors") == 0.0

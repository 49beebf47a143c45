"""Soak runs on real trees with the simulated engine: a verdict for the right reason, and a run that outlives it all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from stoker.soak.intervals import Interval
from stoker.soak.keeping import ENDED, RUNNING, Keeping, Run
from stoker.watchdog.journal.errors import JournalUnavailable
from stoker.watchdog.soak_news import GateOutcome
from tests.e2e.conftest import ServeTree
from tests.e2e.running import STOKER, RunningTree, eventually, stoker, until_gone

# Everything is scaled to seconds: what a simulated engine has no prefix cache for is no gate.
CONFIG = """
[engine]
kind = "simulated"
heartbeat_s = 0.05
[engine.simulated]
step_s = 0.005
{faults}
[server]
port = 0
[watchdog]
port = 0
sample_s = 0.2
[watchdog.restart]
intensity = 1000
backoff_max_s = 0.1
[soak.gates]
cache_hit_share = 0.0
memory_bytes_per_hour = 0.0
memory_growth_bytes = {growth}
"""


def config(faults: str = "", growth: float = 1e9) -> str:
    return CONFIG.format(faults=faults, growth=growth)


def soak(tree: RunningTree, *given: str) -> subprocess.Popen[str]:
    command = [str(STOKER), "soak", "run", "--workload", "burst", "--streams", "4", "--scale", "0.2", "--json", *given]
    environment = {**os.environ, "STOKER_HOME": str(tree.home)}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def finished(run: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Its exit code, and what it says of itself."""
    out, _ = run.communicate(timeout=90)
    return run.returncode, json.loads(out)


def failing(run: dict[str, Any]) -> set[str]:
    return {gate["gate"] for gate in run["result"]["verdict"]["gates"] if gate["outcome"] == "fail"}


def told(tree: RunningTree, *command: str) -> Any:
    return json.loads(stoker(tree.home, "soak", *command, "--json").stdout)


def test_a_run_with_chaos_passes_and_is_told_of_everywhere(serve_tree: ServeTree) -> None:
    tree = serve_tree(config())
    code, run = finished(soak(tree, "--duration", "12s", "--chaos", "kill:1x"))
    summary = run["result"]["summary"]
    assert failing(run) == set()
    assert (summary["failures"], summary["shifted"], summary["altered"]) == ({}, 0, 0)
    assert summary["deaths"] == 1 and [act["kind"] for act in summary["acts"]] == ["kill"]
    assert summary["compared"] > 4
    assert code == (0 if run["result"]["verdict"]["outcome"] == "pass" else 1)
    assert [each["id"] for each in told(tree, "list")] == [run["id"]]
    assert told(tree, "show", run["id"][:10])["result"] == run["result"]
    page, text = map(Path, told(tree, "report", "last"))
    assert page.is_file() and text.read_text(encoding="utf-8").startswith(f"# Soak run {run['id']}")
    assert {"what", run["id"]} == set(told(tree, "compare", "last", "last")[0])


@pytest.mark.parametrize(
    ("faults", "growth", "seconds", "reasons"),
    [
        ('faults = [{ kind = "leak", amount = 100000 }]', 50e6, "15s", {"memory"}),
        ('faults = [{ kind = "slow", amount = 2.5, after_tokens = 4200 }]', 1e9, "20s", {"ttft_drift", "tpot_drift"}),
    ],
    ids=["leaking", "slowed"],
)
def test_a_sick_engine_fails_for_exactly_its_sickness(
    serve_tree: ServeTree, faults: str, growth: float, seconds: str, reasons: set[str]
) -> None:
    code, run = finished(soak(serve_tree(config(faults, growth)), "--duration", seconds))
    assert code == 1
    assert failing(run) and failing(run) <= reasons, run["result"]["verdict"]


async def test_a_run_goes_on_after_everything_was_killed_and_accounts_for_every_second(serve_tree: ServeTree) -> None:
    tree = serve_tree(config())
    runner = soak(tree, "--duration", "12s")
    async with contextlib.aclosing(Keeping(tree.paths.journal_url)) as keeping:
        before = await until(keeping, lambda run, intervals: len(intervals) >= 4)
        pids = tree.pids()
        for pid in (runner.pid, *pids):
            os.kill(pid, signal.SIGKILL)
        runner.communicate()
        tree.process.wait()
        assert tree.process.stdout is not None
        tree.process.stdout.close()
        await until_gone(*pids)
        serve_tree(config(), home=tree.home)
        # Nobody asks for it: the watchdog knows that it is not over.
        run = await until(keeping, lambda run, intervals: run.state == ENDED)
    assert run.result is not None
    summary = run.result.summary
    assert (before.state, run.id) == (RUNNING, before.id)
    assert summary.seconds["away"] > 0.5
    assert sum(summary.seconds.values()) == pytest.approx(summary.until - summary.began_at, abs=1e-3)
    assert summary.load_s == pytest.approx(12.0, abs=0.5)
    assert not [gate for gate in run.result.verdict.gates if gate.outcome is GateOutcome.FAIL]
    await eventually(lambda: not soaking(tree.home))


async def until(keeping: Keeping, condition: Callable[[Run, list[Interval]], bool]) -> Run:
    """The one run, once what is written down of it meets the condition."""
    async with asyncio.timeout(90):
        while True:
            # On a busy machine the tree may be making the tables, or be about to, when they are asked for.
            with contextlib.suppress(JournalUnavailable):
                for run in await keeping.runs():
                    if condition(run, await keeping.intervals(run.id)):
                        return run
            await asyncio.sleep(0.2)


def soaking(home: Path) -> bool:
    """Whether a process of a run is there."""
    found = psutil.process_iter(["cmdline", "environ"])
    return any(
        "soak" in (each.info["cmdline"] or ()) and (each.info["environ"] or {}).get("STOKER_HOME") == str(home)
        for each in found
    )

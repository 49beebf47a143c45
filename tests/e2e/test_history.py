"""What happened can be told: while the tree runs, and after it has stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

from stoker.watchdog import samples
from stoker.watchdog.journal.records import Incarnation, SampleRecord
from stoker.watchdog.journal.store import Store
from tests.e2e.running import RunningTree, eventually, stoker


async def test_every_incarnation_is_on_record_after_the_tree_has_stopped(tree: RunningTree) -> None:
    victim = tree.engine().pid
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    await asyncio.to_thread(tree.until_ready, 2)
    (told,) = tree.client.past(3600).incidents
    assert (told.incident.kind, told.incident.summary) == ("engine_death", "killed by SIGKILL")
    assert told.duration_s is not None
    tree.stop()
    store = await Store.opened(tree.paths.journal_url)
    kept = [each for each in await store.all(Incarnation) if each.child == "engine-default"]
    looks = await store.all(SampleRecord)
    await store.close()
    assert [(each.epoch, each.cause) for each in kept] == [(1, "killed"), (2, "requested")]
    assert (kept[0].pid, kept[0].exit_code) == (victim, -signal.SIGKILL)
    assert all(each.ready_at is not None and each.ended_at is not None for each in kept)
    assert list(samples.decode([look.line.encode() for look in looks], "the journal"))


async def test_uptime_is_told_while_the_tree_runs_and_after_it(tree: RunningTree) -> None:
    told = json.loads((await asyncio.to_thread(stoker, tree.home, "incidents", "--json")).stdout)
    assert told["incidents"] == []
    assert told["uptime"]["up_s"] > 0
    tree.stop()
    after = await asyncio.to_thread(stoker, tree.home, "incidents", "--since", "1h")
    assert after.returncode == 0
    assert after.stdout.startswith("no incidents in 1h\nuptime in 1h: ")


def test_a_home_where_nothing_ran_has_no_past(tmp_path: Path) -> None:
    told = stoker(tmp_path, "incidents")
    assert (told.returncode, told.stdout) == (
        0,
        "no incidents in 72h\nuptime in 72h: unknown (down for 0:00:00)\n",
    )
    assert not (tmp_path / "stoker.db").exists()


def test_a_time_that_is_none_is_misuse(tmp_path: Path) -> None:
    told = stoker(tmp_path, "incidents", "--since", "yesterday")
    assert told.returncode == 2
    assert "30m, 72h or 7d" in told.stderr


async def test_a_recording_of_a_running_tree_can_be_replayed(tree: RunningTree, tmp_path: Path) -> None:
    out = tmp_path / "samples.jsonl"
    await eventually(lambda: bool(tree.client.samples()))
    done = await asyncio.to_thread(stoker, tree.home, "watch", "record", "--out", str(out), "--for", "1.5")
    assert done.returncode == 0
    recorded = list(samples.read(out))
    assert recorded and all(sample.host.memory_bytes for sample in recorded)
    assert len({sample.wall for sample in recorded}) == len(recorded)
    assert (await asyncio.to_thread(stoker, tree.home, "watch", "replay", str(out))).returncode == 0

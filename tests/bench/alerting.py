"""How soon somebody hears: from a kill of the engine to a webhook, from a fault to a notification of Alertmanager.

The latter with the committed rules, routes and intervals as they are, in Debian's Prometheus and Alertmanager. Each
alert is timed from the moment that `/metrics` shows its fault; what a detector needs to be sure comes before that. A
restart loop and an engine that hangs are timed in a real tree too, from the kill on. Run with

    python -m tests.bench.alerting [--kills 15] [--only webhooks|alerts|faults]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.alerts.faults import ORDINARY, frozen_engine, kill_again_and_again, scraped_at
from tests.alerts.notifying import notifying
from tests.alerts.receivers import Receiver, receiving
from tests.bench.shown_faults import ROUNDS, STAGE_S, STANDING_S, Round, showing
from tests.e2e.running import SIMULATED, RunningTree

DEADLINE_S = 150.0
LONGEST_S = 1200.0
"""What is of little weight and may well pass by itself is told after a quarter of an hour."""


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--only", choices=("webhooks", "alerts", "faults"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.only in (None, "webhooks"):
            asyncio.run(_webhooks(Path(folder), asked.kills))
        if asked.only in (None, "faults"):
            asyncio.run(_real_faults(Path(folder)))
        if asked.only in (None, "alerts"):
            asyncio.run(_shown_faults(Path(folder)))


async def _webhooks(folder: Path, kills: int) -> None:
    async with receiving() as receiver:
        tables = f'[[alerts.targets]]\nname = "ops"\nurl = "{receiver.url}"\n'
        # So many deaths would open the circuit, and each next start would wait longer.
        tree = RunningTree(
            folder / "told", SIMULATED + "[watchdog.restart]\nintensity = 1000\nbackoff_max_s = 0.2\n" + tables
        )
        await asyncio.to_thread(tree.start)
        try:
            took = [await _one_kill(tree, receiver, epoch) for epoch in range(1, kills + 1)]
        finally:
            await asyncio.to_thread(tree.stop)
    print(
        f"kill -9 of the engine to a webhook: median {statistics.median(took):.3f} s, most {max(took):.3f} s, "
        f"{kills} kills"
    )


async def _one_kill(tree: RunningTree, receiver: Receiver, epoch: int) -> float:
    engine = await asyncio.to_thread(tree.until_ready, epoch)
    assert engine.pid is not None
    before = len(_deaths(receiver))
    began = time.monotonic()
    os.kill(engine.pid, signal.SIGKILL)
    while len(_deaths(receiver)) == before:
        receiver.changed.clear()
        await receiver.changed.wait()
    return time.monotonic() - began


def _deaths(receiver: Receiver) -> list[str]:
    names = [got.body["groupLabels"]["alertname"] for got in receiver.got if got.status == "firing"]
    return [name for name in names if name == "StokerEngineDown"]


async def _real_faults(folder: Path) -> None:
    async with receiving() as receiver:
        tree = RunningTree(folder / "faults", ORDINARY.replace("every_s = 1.0", "every_s = 5.0"))
        await asyncio.to_thread(tree.start)
        try:
            with notifying(folder, scraped_at(tree), _hooks(receiver)):
                async with asyncio.timeout(DEADLINE_S):
                    began = time.monotonic()
                    with frozen_engine(tree):
                        await _told("StokerCanaryFailing", receiver)
                    print(f"StokerCanaryFailing: told {time.monotonic() - began:.1f} s after the engine froze")
                    began = time.monotonic()
                    await kill_again_and_again(tree)
                    await _told("StokerRestartLoop", receiver)
                    print(f"StokerRestartLoop: told {time.monotonic() - began:.1f} s after the first kill")
        finally:
            await asyncio.to_thread(tree.stop)


async def _shown_faults(folder: Path) -> None:
    folders = [Path(tempfile.mkdtemp(dir=folder)) for _ in ROUNDS]
    async with asyncio.timeout(LONGEST_S):
        await asyncio.gather(*map(_round, folders, ROUNDS))


async def _round(folder: Path, faults: Round) -> None:
    """Seconds from each fault to its notification; all of a round are shown at once."""
    async with receiving() as receiver, showing(faults) as shown:
        with contextlib.ExitStack() as stack:
            # Starting waits for scrapes, which this loop answers.
            await asyncio.to_thread(stack.enter_context, notifying(folder, shown.targets, _hooks(receiver)))
            while shown.stage < shown.last_stage - 1:
                shown.stage += 1
                await asyncio.sleep(STAGE_S)
            began = time.monotonic()
            shown.stage = shown.last_stage

            async def time_one(name: str) -> None:
                await _told(name, receiver)
                took = time.monotonic() - began
                standing = STANDING_S.get(name, 0.0)
                since = f", {took - standing:.1f} s after it had stood for {standing:.0f} s" if standing else ""
                print(f"{name}: told after {took:.1f} s{since}", flush=True)

            await asyncio.gather(*map(time_one, faults))


def _hooks(receiver: Receiver) -> str:
    return f"http://{urlsplit(receiver.url).netloc}"


async def _told(alert: str, receiver: Receiver) -> None:
    while alert not in {got.body["groupLabels"]["alertname"] for got in receiver.got}:
        receiver.changed.clear()
        await receiver.changed.wait()


if __name__ == "__main__":
    main()

"""How soon somebody hears: from a kill of the engine to a webhook, from a fault to a notification of Alertmanager.

The latter with the committed rules and routes as they are, in Debian's Prometheus and Alertmanager. What a fault needs
to be one is not part of it: a canary goes out every three minutes and may take one, a leak takes hours to be sure of;
so those count from the moment that the watchdog knows. Run with

    python -m tests.bench.alerting [--kills 15] [--only webhooks|alertmanager]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.alerts.faults import LEAKING, ORDINARY, frozen_service, kill_again_and_again, scraped_at, under_load
from tests.alerts.notifying import notifying
from tests.alerts.receivers import Receiver, receiving
from tests.e2e.running import SIMULATED, RunningTree
from tests.e2e.test_detection import incidents

DEADLINE_S = 150.0


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--only", choices=("webhooks", "alertmanager"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.only != "alertmanager":
            asyncio.run(_webhooks(Path(folder), asked.kills))
        if asked.only != "webhooks":
            asyncio.run(_alertmanager(Path(folder)))


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


async def _alertmanager(folder: Path) -> None:
    async with receiving() as receiver:
        trees = {
            "loop": RunningTree(folder / "loop", ORDINARY.replace("every_s = 1.0", "every_s = 5.0")),
            # Slowly enough that the finding outlasts a scrape, and that there is memory until then.
            "leak": RunningTree(
                folder / "leak", LEAKING.replace("speed = 480", "speed = 120").replace("= 200_000", "= 50_000")
            ),
        }
        for tree in trees.values():
            await asyncio.to_thread(tree.start)
        targets = [target for tree in trees.values() for target in scraped_at(tree)]
        hooks = f"http://{urlsplit(receiver.url).netloc}"
        try:
            with notifying(folder, targets, hooks):
                async with asyncio.timeout(DEADLINE_S), under_load(trees["leak"]):
                    leak = asyncio.create_task(_leak(trees["leak"], receiver))
                    async with frozen_service(trees["loop"]):
                        await _timed("StokerCanaryFailing", receiver, time.time())
                    began = time.time()
                    await kill_again_and_again(trees["loop"])
                    await _timed("StokerRestartLoop", receiver, began)
                    await leak
        finally:
            for tree in trees.values():
                await asyncio.to_thread(tree.stop)


async def _leak(tree: RunningTree, receiver: Receiver) -> None:
    while not (found := await asyncio.to_thread(incidents, tree, "leak")):  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    await _timed("StokerLeak", receiver, found[0].incident.opened_at)


async def _timed(alert: str, receiver: Receiver, began: float) -> None:
    """Until it is told; `began` in seconds since 1970."""
    while alert not in {got.body["groupLabels"]["alertname"] for got in receiver.got}:
        receiver.changed.clear()
        await receiver.changed.wait()
    print(f"{alert}: notified {time.time() - began:.1f} s after the fault")


if __name__ == "__main__":
    main()

"""What watching costs: `python -m tests.bench.watchdog_cost [--seconds 60] [--samples 10000]`.

First a whole tree that serves requests of a simulated engine, with the watchdog's CPU time and memory from the system.
Then that many samples of this machine through detectors, policy and journal as fast as they go, with the memory of
this process after each thousand: it must not grow.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from pathlib import Path

import msgspec
import psutil
from prometheus_client import CollectorRegistry

from stoker.config import Paths, Watchdog
from stoker.watchdog import policy
from stoker.watchdog.decisions import Conditions
from stoker.watchdog.journal.records import SampleRecord
from stoker.watchdog.panel import Panel
from stoker.watchdog.samples import Sample, encode
from stoker.watchdog.watching import Records
from tests.alerts.receivers import nobody
from tests.e2e.chatting import ask, chat_body
from tests.e2e.running import SIMULATED, RunningTree

MB = 1e6
SETTLE_S = 5.0


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--samples", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sample = asyncio.run(_serving(Path(folder), asked.seconds))
        many = Path(folder) / "many"
        many.mkdir()
        asyncio.run(_many(many, sample, asked.samples))


async def _serving(home: Path, seconds: float) -> Sample:
    # Heartbeats as often as they are by default, not as often as tests like them.
    tree = RunningTree(home / "home", SIMULATED.replace("heartbeat_s = 0.05\n", ""))
    await asyncio.to_thread(tree.start)
    try:
        watchdog = psutil.Process(tree.process.pid)
        await asyncio.sleep(SETTLE_S)
        spent, began, answers = watchdog.cpu_times(), time.monotonic(), 0
        while time.monotonic() - began < seconds:
            await ask(tree.api, chat_body("Tell me more.", seed=answers, max_tokens=50, stream=True))
            answers += 1
        wall_s, now = time.monotonic() - began, watchdog.cpu_times()
        cpu_s = now.user + now.system - spent.user - spent.system
        memory = watchdog.memory_info().rss
        print(
            f"serving {answers} requests in {wall_s:.0f} s: "
            f"{cpu_s / wall_s:.2%} of a core, {memory / MB:.0f} MB resident"
        )
        last = tree.client.samples().splitlines()[-1]
        return msgspec.json.decode(last, type=Sample)
    finally:
        tree.stop()


async def _many(home: Path, sample: Sample, count: int) -> None:
    records = Records(Watchdog(), Paths(home), CollectorRegistry(), nobody)
    panel, state = Panel(), policy.State()
    writing = asyncio.create_task(records.journal.run())
    process, began = psutil.Process(), time.process_time()
    for number in range(count):
        now = msgspec.structs.replace(sample, at=sample.at + number, wall=sample.wall + number)
        verdicts = panel.update(now)
        state, _ = policy.decide(state, verdicts, Conditions(engine_up_s=number, quiet_s=number), now.at)
        records.journal.put(SampleRecord(now.wall, encode(now).decode()))
        records.metrics.show(now, verdicts)
        if number % 100 == 99:
            await asyncio.sleep(0.02)
        if number % 1000 == 999:
            gc.collect()
            print(f"{number + 1:6d} samples: {process.memory_info().rss / MB:.1f} MB")
    print(f"{(time.process_time() - began) / count * 1000:.3f} ms of CPU a sample, the journal included")
    records.journal.stop()
    await writing


if __name__ == "__main__":
    main()

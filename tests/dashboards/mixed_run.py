"""A run in which most of what the boards show happens: streams, shared prompts, a kill, a reclaim, refusals, cancels.

`python -m tests.dashboards.mixed_run [MODEL_FOLDER] [--minutes 5]` does it under a real Prometheus, with a tiny random
model unless a folder is given, and ends with what `stoker dashboards check` says and its exit code.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from stoker.watchdog.soak_news import GateOutcome, SoakNews
from tests.dashboards.prometheus_server import SCRAPE_S, prometheus_scraping
from tests.e2e.chatting import Chat, ChatFailed, chat_body
from tests.e2e.running import RunningTree, stoker
from tests.tiny_models import make_tiny_llama

CLIENTS = 4
BURST = 24
SOAK_RUN = "mixed"
"""The watchdog is told of this load as of a soak run."""
CANCEL_EVERY_S = 5.0
PAUSE_S = 0.1
REFUSED_PAUSE_S = 1.0
PREFIX = "Everybody begins with the same words, so that somebody has computed them already. " * 4

CONFIG = """
[engine]
model = "{model}"
heartbeat_s = 0.05
[server]
port = 0
max_queue = 16
[watchdog]
port = 0
[watchdog.canary]
every_s = 5
[watchdog.shedding]
thresholds = [0.99, 0.995, 0.999]
"""


def config(model: Path) -> str:
    """A tree whose queue a burst overflows, whose canaries do not take long to come, and that sheds no load because
    something else uses the machine's memory.
    """
    return CONFIG.format(model=model)


def targets_of(tree: RunningTree) -> dict[str, str]:
    """Both processes' `host:port` by Prometheus' job."""
    return {
        "stoker-service": urlsplit(tree.api).netloc,
        "stoker-watchdog": urlsplit(tree.client.serving.watchdog).netloc,
    }


async def mixed_load(tree: RunningTree, seconds: float) -> None:
    """Clients throughout, who give up now and then; a kill after a third of the time, the rest after two thirds."""
    await asyncio.to_thread(tree.client.tell_soak, SoakNews(SOAK_RUN, True, GateOutcome.INCONCLUSIVE, "", {}))
    ends = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(_client(tree, number, ends))
        group.create_task(_who_gives_up(tree, ends))
        group.create_task(_trouble(tree, seconds))
    gates = {"failed_requests": GateOutcome.PASS, "memory": GateOutcome.PASS}
    await asyncio.to_thread(tree.client.tell_soak, SoakNews(SOAK_RUN, False, GateOutcome.PASS, "", gates))


async def _client(tree: RunningTree, number: int, ends: float) -> None:
    async with aiohttp.ClientSession() as http:
        for turn in itertools.count():
            if time.monotonic() > ends:
                return
            words = PREFIX if number % 2 else f"Nobody else asks what client {number} asks in turn {turn}. "
            body = chat_body(f"{words} Go on, turn {turn}.", max_tokens=40 + 20 * number, stream=True)
            try:
                await Chat(tree.api, body).run(http)
            except ChatFailed:  # 429 in the burst
                await asyncio.sleep(REFUSED_PAUSE_S)
            await asyncio.sleep(PAUSE_S)


async def _who_gives_up(tree: RunningTree, ends: float) -> None:
    async with aiohttp.ClientSession() as http:
        while time.monotonic() < ends:
            chat = Chat(tree.api, chat_body("Never mind.", max_tokens=400, stream=True))
            asking = asyncio.create_task(chat.run(http))
            with contextlib.suppress(TimeoutError):  # 429 in the burst
                async with asyncio.timeout(1.0):
                    await chat.until(2)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await asyncio.sleep(min(CANCEL_EVERY_S, max(0.0, ends - time.monotonic())))


async def _trouble(tree: RunningTree, seconds: float) -> None:
    await asyncio.sleep(seconds / 3)
    pid = tree.engine().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(seconds / 3)
    await asyncio.to_thread(stoker, tree.home, "engine", "reclaim", "--level", "2")
    async with aiohttp.ClientSession() as http:
        body = chat_body("All at once.", max_tokens=20)
        await asyncio.gather(*(Chat(tree.api, body).run(http) for _ in range(BURST)), return_exceptions=True)


@contextlib.contextmanager
def a_mixed_run(model: Path, seconds: float) -> Iterator[tuple[RunningTree, str]]:
    """A tree that has been through it, and the address of the Prometheus that watched."""
    with tempfile.TemporaryDirectory() as name:
        tree = RunningTree(Path(name) / "home", config(model))
        tree.start()
        try:
            with prometheus_scraping(Path(name), targets_of(tree)) as url:
                asyncio.run(mixed_load(tree, seconds))
                time.sleep(2 * SCRAPE_S)
                yield tree, url
        finally:
            tree.stop()


def main() -> int:
    """Returns the exit code of `stoker dashboards check`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="default: a tiny random one")
    parser.add_argument("--minutes", type=float, default=5.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        model = asked.model.resolve() if asked.model else make_tiny_llama(Path(name))
        with a_mixed_run(model, asked.minutes * 60) as (tree, url):
            options = ("--prometheus", url, "--minutes", str(max(1.0, asked.minutes)), "--scrape-s", str(SCRAPE_S))
            told = stoker(tree.home, "dashboards", "check", *options)
    sys.stdout.write(told.stdout + told.stderr)
    return told.returncode


if __name__ == "__main__":
    sys.exit(main())

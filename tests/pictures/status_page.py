"""Take the status page's pictures: `python -m tests.pictures.status_page [MODEL_FOLDER]`.

The requests, the kill and the figures are a real run of the demo model. The three days before it are written into the
journal first, since nobody waits for three days for a picture.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
from rich.console import Console

from stoker.config import Paths
from stoker.engine.models import ensure
from stoker.engine.progress import progress_on
from stoker.watchdog.journal.records import ActionRecord, Incident, Interval, Record
from stoker.watchdog.journal.store import Store
from stoker.watchdog.journal.uptime import DOWN, TREE, UP
from tests.e2e.browsing import chromium, quiet_page
from tests.e2e.chatting import Chat, chat_body
from tests.e2e.running import RunningTree

PICTURES = Path(__file__).parent.parent.parent / "docs" / "pictures"
MODELS = Path.home() / ".cache" / "stoker-tests"
WIDTH, HEIGHT = 1120, 1180
HOURS = 71.5
TROUBLE = (
    (9.2, 4.1, "engine_death", "killed by SIGKILL", None),
    (
        30.6,
        40.0,
        "leak",
        "memory grows by 96 MB an hour and would be full in 21 h",
        "restart the engine in a quiet minute",
    ),
    (55.4, 6.3, "engine_death", "stalled: no step for 10.2 s (bound 10.0 s)", None),
)
"""Hours after the begin, seconds down, what it was, and what was done about it."""
AGENT = "You are a careful agent that looks after a small server in a cellar. " * 12
QUESTIONS = (
    "What is the capital of France?",
    "Name three rivers.",
    "Why is the sky blue?",
    "Write a haiku about fire.",
)
STORY = "Tell me a long story about a stoker on a night train."


def three_days(now: float) -> Iterator[Record]:
    """What a journal holds of them."""
    began = at = now - HOURS * 3600
    for hours, down_s, kind, summary, action in TROUBLE:
        moment = began + hours * 3600
        yield Interval(TREE, at, moment, UP)
        yield Interval(TREE, moment, moment + down_s, DOWN)
        yield Interval("engine-default", moment, moment + down_s, "starting")
        yield Incident(f"{kind}-{hours}", kind, moment - 5, summary, {}, moment + down_s + 60)
        if action is not None:
            yield ActionRecord(f"{kind}-{hours}", moment, "restart", action, f"{kind}-{hours}", moment + down_s, "done")
        at = moment + down_s
    yield Interval(TREE, at, now, UP)


async def write_three_days(paths: Paths) -> None:
    store = await Store.opened(paths.journal_url)
    await store.write(list(three_days(time.time())))
    await store.close()


async def a_busy_minute(tree: RunningTree) -> None:
    """Questions with a long beginning in common, then stories whose engine is killed."""
    random.seed(7)
    async with aiohttp.ClientSession() as http:
        for question in QUESTIONS:
            body = chat_body(question, max_tokens=random.randint(20, 60), stream=True)
            body["messages"].insert(0, {"role": "system", "content": AGENT})
            await Chat(tree.api, body).run(http)
        stories = [Chat(tree.api, chat_body(STORY, max_tokens=150, stream=True, seed=seed)) for seed in range(3)]
        running = [asyncio.create_task(story.run(http)) for story in stories]
        await stories[0].until(120)
        os.kill(tree.engine().pid or 0, signal.SIGKILL)
        await asyncio.gather(*running)


def take(tree: RunningTree) -> None:
    """The page as a whole, and one request's waterfall in the dark."""
    with chromium() as browser, quiet_page(browser) as page:
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.goto(tree.api)
        page.wait_for_timeout(2_000)
        # Playwright has this thread's event loop.
        with ThreadPoolExecutor() as threads:
            threads.submit(asyncio.run, a_busy_minute(tree)).result()
        page.wait_for_timeout(4_000)
        page.screenshot(path=PICTURES / "status-page.png")
        page.emulate_media(color_scheme="dark")
        page.locator("tr.request:has(.tag)").first.click()
        page.locator(".waterfall").wait_for()
        page.locator("#requests").screenshot(path=PICTURES / "waterfall.png")


def main(argv: list[str]) -> int:
    model = Path(argv[0]) if argv else ensure("demo", MODELS, progress_on(Console(stderr=True)))
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        config = f'[engine]\nmodel = "{model}"\n[server]\nport = 0\n[watchdog]\nport = 0\n'
        tree = RunningTree(Path(folder), config)
        asyncio.run(write_three_days(tree.paths))
        tree.start()
        try:
            take(tree)
        finally:
            tree.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

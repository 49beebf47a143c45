"""What the status page costs: `python -m tests.bench.status_page`.

CPU time of the whole tree while nobody looks and while 20 pages are open, in turns, as a share of one core;
and in a real browser the time to the first paint, and the longest update of a page that shows a busy tree.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import psutil

from tests.e2e.browsing import chromium, paint_and_updates_ms, quiet_page
from tests.e2e.chatting import Chat, chat_body
from tests.e2e.running import SIMULATED, RunningTree

PAGES = 20
STRETCH_S = 10.0
TURNS = 3
UPDATES = 40
BOUNDS = {"cpu_share": 0.01, "first_paint_ms": 1000.0, "update_ms": 100.0}


def cpu_s(tree: RunningTree) -> float:
    """Used by the whole tree so far."""
    times = [psutil.Process(pid).cpu_times() for pid in tree.pids()]
    return sum(each.user + each.system for each in times)


@asynccontextmanager
async def open_pages(api: str, count: int) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as http:

        async def follow() -> None:
            async with http.get(f"{api}/page/events") as response:
                async for _ in response.content.iter_any():
                    pass

        pages = [asyncio.create_task(follow()) for _ in range(count)]
        yield
        for page in pages:
            page.cancel()
        await asyncio.gather(*pages, return_exceptions=True)


async def share_of_a_core(tree: RunningTree, pages: int) -> float:
    async with open_pages(tree.api, pages):
        await asyncio.sleep(1.0)
        before = cpu_s(tree)
        await asyncio.sleep(STRETCH_S)
        return (cpu_s(tree) - before) / STRETCH_S


async def added_by_pages(tree: RunningTree) -> float:
    """Paired, so that what the machine does besides counts for both."""
    added = []
    for _ in range(TURNS):
        without = await share_of_a_core(tree, 0)
        added.append(await share_of_a_core(tree, PAGES) - without)
        print(f"nobody looks: {without:.2%} of a core; {PAGES} pages add {added[-1]:.2%}", file=sys.stderr)
    return statistics.median(added)


def in_a_browser(tree: RunningTree) -> tuple[float, float]:
    """Milliseconds to the first paint, and of the longest update."""
    with chromium() as browser, quiet_page(browser) as page:
        page.goto(tree.api)
        return paint_and_updates_ms(page, UPDATES)


async def busy(tree: RunningTree, chats: int) -> None:
    """Something to show."""
    body = chat_body("Tell me a story.", max_tokens=50)
    async with aiohttp.ClientSession() as http:
        await asyncio.gather(*(Chat(tree.api, body).run(http) for _ in range(chats)))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        tree = RunningTree(Path(folder), SIMULATED)
        tree.start()
        try:
            asyncio.run(busy(tree, chats=60))
            paint_ms, update_ms = in_a_browser(tree)
            added = asyncio.run(added_by_pages(tree))
        finally:
            tree.stop()
    found = {"cpu_share": added, "first_paint_ms": paint_ms, "update_ms": update_ms}
    for name, value in found.items():
        print(f"{name}: {value:.4g} (bound {BOUNDS[name]:g})")
    return 0 if all(value < BOUNDS[name] for name, value in found.items()) else 1


if __name__ == "__main__":
    sys.exit(main())

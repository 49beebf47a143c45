"""What is due happens, again and again, for as long as it is wanted."""

from __future__ import annotations

import asyncio
from typing import cast

from stoker.config import Canary as CanarySettings
from stoker.watchdog.canary import Canary
from stoker.watchdog.journal.journal import Journal
from stoker.watchdog.schedule import scheduled

DEADLINE_S = 30.0


class Diary:
    """A canary and a journal that only note what is asked of them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._more = asyncio.Event()

    async def ask(self) -> None:
        self._note("ask")

    async def recheck(self) -> None:
        self._note("recheck")

    async def compare(self) -> None:
        self._note("compare")

    def thin(self) -> None:
        self._note("thin")

    def check(self) -> None:
        self._note("check")

    def _note(self, what: str) -> None:
        self.done.append(what)
        self._more.set()

    async def until(self, what: str, times: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while self.done.count(what) < times:
                self._more.clear()
                await self._more.wait()


async def test_canaries_and_comparisons_come_at_their_times() -> None:
    diary = Diary()
    settings = CanarySettings(every_s=0.05, recheck_s=0.05, compare_every_s=0.1)
    with scheduled(settings, cast(Canary, diary), cast(Journal, diary)):
        await diary.until("ask", 3)
        await diary.until("recheck", 2)
        await diary.until("compare", 2)
    assert "check" not in diary.done

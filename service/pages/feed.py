"""The one producer of what pages show, and the pages that follow it.

Each kind of news is made into bytes once, and only sent when it is different. A page that reads slowly holds the latest
of each kind and nothing more. While nobody looks, only the history of tokens goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator

import msgspec
import structlog

from .history import History
from .live import Live
from .requests import Row
from .watchdog import Now, WatchdogReader, WatchdogSilent

PERIOD_S = 1.0
WATCHDOG_PERIOD_S = 2.0
PAST_PERIOD_S = 30.0
KEEPALIVE_S = 15.0

log = structlog.get_logger(__name__)


class Follower:
    """One page: the latest of each kind of news that it has not been sent yet."""

    def __init__(self) -> None:
        self._pending: dict[str, bytes] = {}
        self._news = asyncio.Event()
        self._over = False

    def tell(self, kind: str, event: bytes) -> None:
        self._pending[kind] = event
        self._news.set()

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def events(self) -> AsyncIterator[bytes]:
        """What to send; a comment now and then, so that a page that has gone is noticed."""
        while not self._over:
            try:
                async with asyncio.timeout(KEEPALIVE_S):
                    await self._news.wait()
            except TimeoutError:
                yield b":\n\n"
                continue
            self._news.clear()
            pending, self._pending = self._pending, {}
            if pending:
                yield b"".join(pending.values())


class Feed:
    """Run `run` as a task for as long as the service lives."""

    def __init__(
        self,
        look: Callable[[float], Live],
        rows: Callable[[], list[Row]],
        tokens: Callable[[], float],
        watchdog: WatchdogReader | None,
    ) -> None:
        """`look` is given the tokens a second, `tokens` is their count so far; without a watchdog nobody asks one."""
        self._look = look
        self._rows = rows
        self._tokens = tokens
        self._watchdog = watchdog
        self._history = History()
        self._followers: set[Follower] = set()
        self._watched = asyncio.Event()
        self._latest: dict[str, bytes] = {}
        self._past_of: object = None
        self._past_at = float("-inf")
        self._over = False

    @contextlib.contextmanager
    def following(self) -> Iterator[Follower]:
        """A page while it is open: at first all that is known, then what changes."""
        follower = Follower()
        self._followers.add(follower)
        follower.tell("history", _event("history", self._history.rates))
        for kind, event in self._latest.items():
            follower.tell(kind, event)
        self._watched.set()
        if self._over:
            follower.end()
        else:
            self._publish_own()
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            if not self._followers:
                self._watched.clear()
                self._latest.clear()
                self._past_at = float("-inf")

    async def run(self) -> None:
        """Ends only by cancellation, and with it every page's stream."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat())
                if self._watchdog is not None:
                    tasks.create_task(self._ask(self._watchdog))
        finally:
            self._over = True
            for follower in self._followers:
                follower.end()
            if self._watchdog is not None:
                await self._watchdog.close()

    async def _beat(self) -> None:
        while True:
            with _whatever_happens():
                self._history.note(time.monotonic(), self._tokens())
                if self._followers:
                    self._publish_own()
            await asyncio.sleep(PERIOD_S)

    async def _ask(self, watchdog: WatchdogReader) -> None:
        while True:
            await self._watched.wait()
            with _whatever_happens():
                await self._ask_once(watchdog)
            await asyncio.sleep(WATCHDOG_PERIOD_S)

    async def _ask_once(self, watchdog: WatchdogReader) -> None:
        try:
            now = await watchdog.now()
            self._publish("watchdog", now)
            await self._tell_past(watchdog, now)
        except WatchdogSilent:
            self._publish("watchdog", None)

    async def _tell_past(self, watchdog: WatchdogReader, now: Now) -> None:
        """Three days are much to read: only when something has happened, and now and then."""
        of = (now.tree.ready, now.tree.engines, now.tree.service, _alarms(now))
        if of != self._past_of or time.monotonic() - self._past_at >= PAST_PERIOD_S:
            self._publish("past", await watchdog.past())
            self._past_of, self._past_at = of, time.monotonic()

    def _publish_own(self) -> None:
        self._publish("live", self._look(self._history.rate))
        self._publish("requests", self._rows())

    def _publish(self, kind: str, news: object) -> None:
        event = _event(kind, news)
        if event == self._latest.get(kind):
            return
        self._latest[kind] = event
        for follower in self._followers:
            follower.tell(kind, event)


@contextlib.contextmanager
def _whatever_happens() -> Iterator[None]:
    """A picture that cannot be made must not end the service that it is of."""
    try:
        yield
    except Exception:
        log.exception("page_failed")


def _alarms(now: Now) -> list[tuple[str, str]]:
    verdicts = [] if now.look is None else now.look.verdicts
    return [(verdict.detector, verdict.level) for verdict in verdicts if verdict.level != "ok"]


def _event(kind: str, news: object) -> bytes:
    """As server-sent events are written; JSON has no line ends of its own."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(news))

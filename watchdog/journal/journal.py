"""The queue between those who record and the database: recording never waits, never fails, and takes bounded memory.

`run` is the one task that writes. While the database is locked, full, gone or hangs, records wait in the queue and
the rest of the watchdog goes on; a damaged file is set aside and a new one begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

import structlog

from .errors import JournalDamaged, JournalUnavailable
from .records import ActionRecord, Incident, IncidentTold, Interval, Record, SampleRecord

if TYPE_CHECKING:
    from .store import Store

FLUSH_S = 1.0
RETRY_S = 30.0
READ_PATIENCE_S = 5.0
CLOSE_PATIENCE_S = 3.0
MAX_SAMPLES = 10_000
MAX_OTHERS = 5_000

T = TypeVar("T")
R = TypeVar("R", bound=Record)

log = structlog.get_logger(__name__)


class Listener(Protocol):
    """Who is told how the database does."""

    def journal_failed(self, sentence: str) -> None:
        """It cannot be written; said once for each time that lasts."""

    def journal_recovered(self) -> None:
        """It can be written again."""


@dataclass(frozen=True)
class Retention:
    """How long samples are kept, in seconds: each one at first, then one a minute."""

    full_s: float
    kept_s: float


class Journal:
    """Where everybody records. `put` from the event loop; `run` as a task, ended by `stop`."""

    def __init__(self, url: str, retention: Retention, listener: Listener) -> None:
        self._url = url
        self._retention = retention
        self._listener = listener
        self._started_at = time.time()
        self._store: Store | None = None
        self._queue = _Queue()
        self._stopping = asyncio.Event()
        self._thin = False
        self._check = False
        self._failed = False
        self._inherited = False

    @property
    def dropped(self) -> int:
        """Records that had to make room for later ones before they could be written."""
        return self._queue.dropped

    @property
    def waiting(self) -> int:
        """Records that are not in the database yet."""
        return len(self._queue)

    def put(self, record: Record) -> None:
        """Keep a record; it is in the database about a second later, if the database can be written."""
        self._queue.put(record)

    def thin(self) -> None:
        """Forget what is old, at the next opportunity."""
        self._thin = True

    def check(self) -> None:
        """See whether the database is whole, at the next opportunity."""
        self._check = True

    def stop(self) -> None:
        """Write what is left and end `run`."""
        self._stopping.set()

    async def run(self) -> None:
        """Write until `stop`; a database that hangs then is not waited for."""
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._write())
            await self._stopping.wait()
            await asyncio.wait({writing}, timeout=CLOSE_PATIENCE_S)
            writing.cancel()
        await self._close()

    async def _write(self) -> None:
        """A batch a second; after a failure ever more seldom, and never giving up."""
        wait_s = FLUSH_S
        while True:
            written = await self._flush()
            if self._stopping.is_set():
                return
            wait_s = FLUSH_S if written else min(RETRY_S, 2 * wait_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait_s)

    async def incidents(self, since: float) -> list[IncidentTold]:
        """Those that were open after `since` (seconds since 1970), oldest first; those that wait in the queue too."""
        kept = await self._read(lambda store: store.incidents(since))
        told = {each.incident.id: each for each in kept}
        for incident in self._queue.of_kind(Incident):
            before = told.get(incident.id, IncidentTold(incident))
            told[incident.id] = IncidentTold(incident, before.actions)
        for action in self._queue.of_kind(ActionRecord):
            if (of := told.get(action.incident or "")) is not None:
                others = [each for each in of.actions if each.id != action.id]
                told[of.incident.id] = IncidentTold(
                    of.incident, tuple(sorted([*others, action], key=lambda each: each.at))
                )
        lasted = [each for each in told.values() if each.incident.closed_at is None or each.incident.closed_at >= since]
        return sorted(lasted, key=lambda each: each.incident.opened_at)

    async def intervals(self, child: str, since: float) -> list[Interval]:
        """A child's states after `since`, oldest first; what waits in the queue is newer than what is kept."""
        kept = await self._read(lambda store: store.intervals(child, since))
        waiting = [each for each in self._queue.of_kind(Interval) if each.child == child and each.until >= since]
        return sorted({each.since: each for each in (*kept, *waiting)}.values(), key=lambda each: each.since)

    async def _read(self, ask: Callable[[Store], Awaitable[list[T]]]) -> list[T]:
        """What the database has; nothing while it cannot be asked."""
        try:
            if self._store is not None:
                async with asyncio.timeout(READ_PATIENCE_S):
                    return await ask(self._store)
        except (JournalUnavailable, JournalDamaged, TimeoutError) as error:
            log.warning("journal_unreadable", error=str(error))
        return []

    async def _flush(self) -> bool:
        """Write everything that waits; False when the database could not be used."""
        try:
            store = self._store = self._store or await self._opened()
            if not self._inherited:
                await store.close_incidents(self._started_at, time.time())
                self._inherited = True
            if records := self._queue.waiting():
                await store.write(records)
                self._queue.written(records)
            await self._keep_in_order(store)
        except JournalDamaged as error:
            await self._close()
            self._set_aside(error)
            return False
        except JournalUnavailable as error:
            await self._close()
            self._report(str(error))
            return False
        except Exception as error:
            # A driver has failures of its own, and none of them may end the tree.
            log.exception("journal_failed_unforeseen")
            await self._close()
            self._report(f"the journal failed: {type(error).__name__}: {error}")
            return False
        if self._failed:
            self._failed = False
            self._listener.journal_recovered()
        return True

    async def _keep_in_order(self, store: Store) -> None:
        """What was asked for since the last batch."""
        if self._thin:
            now = time.time()
            await store.thin(now - self._retention.full_s, now - self._retention.kept_s)
            self._thin = False
        if self._check:
            self._check = False
            await store.check()

    async def _opened(self) -> Store:
        """Its parts take a third of a second to import, which the event loop does not wait for."""
        module = await asyncio.to_thread(importlib.import_module, f"{__package__}.store")
        store: Store = await module.Store.opened(self._url)
        return store

    def _set_aside(self, damage: JournalDamaged) -> None:
        from .store import set_aside

        try:
            moved = set_aside(self._url, datetime.now(UTC))
        except JournalUnavailable as error:
            self._report(f"{damage}; {error}")
        else:
            self._report(f"{damage}; it was set aside as {moved} and a new one begun")

    def _report(self, sentence: str) -> None:
        if not self._failed:
            self._failed = True
            log.error("journal_failed", error=sentence)
            self._listener.journal_failed(sentence)

    async def _close(self) -> None:
        store, self._store = self._store, None
        if store is None:
            return
        try:
            async with asyncio.timeout(CLOSE_PATIENCE_S):
                await store.close()
        except Exception as error:
            log.warning("journal_not_closed", error=f"{type(error).__name__}: {error}")


class _Queue:
    """Records that wait, by kind and key, oldest first. When there are too many, samples and others each lose their
    own oldest: no flood of the former may cost the latter."""

    def __init__(self) -> None:
        self._samples: dict[tuple[object, ...], Record] = {}
        self._others: dict[tuple[object, ...], Record] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._samples) + len(self._others)

    def put(self, record: Record) -> None:
        is_sample = isinstance(record, SampleRecord)
        queue, bound = (self._samples, MAX_SAMPLES) if is_sample else (self._others, MAX_OTHERS)
        queue[type(record), *record.key] = record
        if len(queue) > bound:
            del queue[next(iter(queue))]
            self.dropped += 1

    def waiting(self) -> list[Record]:
        return [*self._others.values(), *self._samples.values()]

    def written(self, records: list[Record]) -> None:
        """Let go of these, unless a newer one has come with the same key."""
        for record in records:
            key = (type(record), *record.key)
            for queue in (self._samples, self._others):
                if queue.get(key) is record:
                    del queue[key]

    def of_kind(self, kind: type[R]) -> list[R]:
        return [record for record in self._others.values() if isinstance(record, kind)]

"""The queue between those who record and the database: recording never waits, never fails, and takes bounded memory.

`run` is the one task that writes. While the database is locked, full, gone or hangs, records wait in the queue and
the rest of the watchdog goes on; a damaged file is set aside and a new one begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import structlog

from .errors import JournalDamaged, JournalUnavailable
from .queue import Queue
from .records import ActionRecord, DeliveryRecord, Incident, IncidentTold, Interval, Record, SoakRun

if TYPE_CHECKING:
    from .store import Store

FLUSH_S = 1.0
RETRY_S = 30.0
READ_PATIENCE_S = 5.0
CLOSE_PATIENCE_S = 3.0
KEEP_PATIENCE_S = 3.0
"""Who waits for a record to be written waits no longer; it is written all the same when it can be."""

T = TypeVar("T")
At = TypeVar("At", bound=ActionRecord | DeliveryRecord)

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
        self._queue = Queue()
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._usable = asyncio.Event()
        self._kept: list[asyncio.Future[bool]] = []
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
        """Keep a record; it is in the database a second later, a sample a few, if the database can be written."""
        self._queue.put(record)

    async def keep(self, records: Iterable[Record]) -> bool:
        """Put records that must outlive this process; True once they are in the database, False when that is only
        possible later."""
        for record in records:
            self._queue.put(record)
        if self._failed:
            return False
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._kept.append(written)
        self._wake.set()
        try:
            async with asyncio.timeout(KEEP_PATIENCE_S):
                return await written
        except TimeoutError:
            return False

    def thin(self) -> None:
        """Forget what is old, at the next opportunity."""
        self._thin = True

    def check(self) -> None:
        """See whether the database is whole, at the next opportunity."""
        self._check = True

    def stop(self) -> None:
        """Write what is left and end `run`."""
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Write until `stop`; a database that hangs then is not waited for."""
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._write())
            await self._stopping.wait()
            await asyncio.wait({writing}, timeout=CLOSE_PATIENCE_S)
            writing.cancel()
        await self._close()

    async def _write(self) -> None:
        """A batch a second, or at once when somebody waits; after a failure ever more seldom, and never giving up."""
        wait_s = FLUSH_S
        while True:
            self._wake.clear()
            waiting, self._kept = self._kept, []
            written = await self._flush()
            for each in waiting:
                if not each.done():
                    each.set_result(written)
            if self._stopping.is_set():
                return
            wait_s = FLUSH_S if written else min(RETRY_S, 2 * wait_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), wait_s)

    async def incidents(self, since: float) -> list[IncidentTold]:
        """Those that were open after `since` (seconds since 1970), oldest first; those that wait in the queue too."""
        kept = await self._read(lambda store: store.incidents(since))
        told = {each.incident.id: each for each in kept}
        for incident in self._queue.of_kind(Incident):
            before = told.get(incident.id, IncidentTold(incident))
            told[incident.id] = msgspec.structs.replace(before, incident=incident)
        for action in self._queue.of_kind(ActionRecord):
            if (of := told.get(action.incident or "")) is not None:
                told[of.incident.id] = msgspec.structs.replace(of, actions=_with(of.actions, action))
        for delivery in self._queue.of_kind(DeliveryRecord):
            if (of := told.get(delivery.incident)) is not None:
                brief = msgspec.structs.replace(delivery, line="")
                told[of.incident.id] = msgspec.structs.replace(of, deliveries=_with(of.deliveries, brief))
        lasted = [each for each in told.values() if each.incident.closed_at is None or each.incident.closed_at >= since]
        return sorted(lasted, key=lambda each: each.incident.opened_at)

    async def deliveries_left(self) -> list[DeliveryRecord]:
        """What an earlier process left of its webhooks; waits until the database can be read, however long that is."""
        return await self._read_at_last(lambda store: store.deliveries_left(self._started_at))

    async def soak_runs(self) -> list[SoakRun]:
        """All of them, oldest first; waits as `deliveries_left` does."""
        runs = await self._read_at_last(lambda store: store.all(SoakRun))
        return sorted(runs, key=lambda run: run.began_at)

    async def _read_at_last(self, ask: Callable[[Store], Awaitable[list[T]]]) -> list[T]:
        """What the database has, as soon as it can be asked."""
        while True:
            await self._usable.wait()
            found = await self._ask(ask)
            if found is not None:
                return found
            await asyncio.sleep(FLUSH_S)

    async def intervals(self, child: str, since: float) -> list[Interval]:
        """A child's states after `since`, oldest first; what waits in the queue is newer than what is kept."""
        kept = await self._read(lambda store: store.intervals(child, since))
        waiting = [each for each in self._queue.of_kind(Interval) if each.child == child and each.until >= since]
        return sorted({each.since: each for each in (*kept, *waiting)}.values(), key=lambda each: each.since)

    async def _read(self, ask: Callable[[Store], Awaitable[list[T]]]) -> list[T]:
        """What the database has; nothing while it cannot be asked."""
        return await self._ask(ask) or []

    async def _ask(self, ask: Callable[[Store], Awaitable[list[T]]]) -> list[T] | None:
        """None while it cannot be asked."""
        try:
            if self._store is not None:
                async with asyncio.timeout(READ_PATIENCE_S):
                    return await ask(self._store)
        except (JournalUnavailable, JournalDamaged, TimeoutError) as error:
            log.warning("journal_unreadable", error=str(error))
        return None

    async def _flush(self) -> bool:
        """Write everything that waits; False when the database could not be used."""
        try:
            store = self._store = self._store or await self._opened()
            if not self._inherited:
                await store.close_incidents(self._started_at, time.time())
                self._inherited = True
            if records := self._queue.due(self._stopping.is_set()):
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
        self._usable.set()
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


def _with(before: Sequence[At], newer: At) -> tuple[At, ...]:
    """The newer one in the place of the one with its key, oldest first."""
    others = (each for each in before if each.key != newer.key)
    return tuple(sorted((*others, newer), key=lambda each: each.at))

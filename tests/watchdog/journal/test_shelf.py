"""The journal as a shelf: kept at once where it can be, later where it cannot, and found again by the next process."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import msgspec

from stoker.alerts.delivery import Delivery, Outcome
from stoker.alerts.edge import Status
from stoker.watchdog.journal.records import DeliveryRecord
from stoker.watchdog.journal.shelf import JournalShelf, delivery_of, record_of
from stoker.watchdog.journal.store import Store
from tests.alerts.edges import BEGAN, OVER, edge
from tests.watchdog.journal.records import INCIDENT, url_of
from tests.watchdog.journal.test_journal import Heard, file, heard, quick, rows, running

__all__ = ["file", "heard", "quick"]

PENDING = Delivery("ops", BEGAN, due_at=100.0, give_up_at=9e9)
TOLD = msgspec.structs.replace(PENDING, attempts=1, outcome=Outcome.DELIVERED, ended_at=101.0)


def test_a_delivery_is_the_same_when_it_comes_back() -> None:
    assert delivery_of(record_of(TOLD)) == TOLD
    assert delivery_of(msgspec.structs.replace(record_of(TOLD), line='{"of": "another version"}')) is None


async def test_what_is_kept_is_in_the_database_when_keeping_returns(file: Path, heard: Heard) -> None:
    async with running(file, heard) as journal:
        await JournalShelf(journal).keep([PENDING])
        assert rows(file, "deliveries") == 1
        assert await journal.keep([record_of(TOLD)])
        assert rows(file, "deliveries") == 1


async def test_while_the_database_is_locked_keeping_returns_and_it_is_kept_later(file: Path, heard: Heard) -> None:
    await (await Store.opened(url_of(file))).close()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with running(file, heard) as journal:
            assert not await journal.keep([record_of(PENDING)])
            assert not await journal.keep([record_of(TOLD)])
            other.execute("COMMIT")
            await heard.recovered.wait()
    store = await Store.opened(url_of(file))
    assert await store.all(DeliveryRecord) == [record_of(TOLD)]
    await store.close()


async def test_a_later_process_finds_what_is_not_over_and_what_has_no_end_but_not_its_own(
    file: Path, heard: Heard
) -> None:
    ended = edge("i2", Status.FIRING, 110.0)
    both = [
        msgspec.structs.replace(TOLD, edge=ended),
        msgspec.structs.replace(TOLD, edge=msgspec.structs.replace(ended, status=Status.RESOLVED)),
    ]
    waits = msgspec.structs.replace(PENDING, edge=edge("i3", Status.RESOLVED, 120.0))
    async with running(file, heard) as journal:
        await JournalShelf(journal).keep([TOLD, *both, waits])
    async with running(file, heard) as journal:
        own = msgspec.structs.replace(PENDING, edge=edge("i4", Status.FIRING, 8e9))
        await JournalShelf(journal).keep([own])
        assert await JournalShelf(journal).left() == [TOLD, waits]


async def test_what_was_left_is_waited_for_until_the_database_can_be_read(file: Path, heard: Heard) -> None:
    async with running(file, heard) as journal:
        await JournalShelf(journal).keep([PENDING])
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with running(file, heard) as journal:
            left = asyncio.create_task(JournalShelf(journal).left())
            await heard.failed.wait()
            assert not left.done()
            other.execute("COMMIT")
            assert await left == [PENDING]


async def test_an_incident_is_told_with_its_deliveries_kept_or_waiting(file: Path, heard: Heard) -> None:
    async with running(file, heard) as journal:
        await journal.keep([INCIDENT, record_of(TOLD)])
        journal.put(record_of(msgspec.structs.replace(PENDING, edge=OVER)))
        (told,) = await journal.incidents(since=0.0)
    assert [(each.status, each.outcome) for each in told.deliveries] == [("firing", "delivered"), ("resolved", None)]

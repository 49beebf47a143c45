"""Recording goes on whatever the database does: locked, full, damaged, moved away, hung, or its writer killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from stoker.watchdog.journal import journal as module
from stoker.watchdog.journal import queue
from stoker.watchdog.journal import store as store_module
from stoker.watchdog.journal.errors import JournalDamaged, JournalUnavailable
from stoker.watchdog.journal.journal import Journal, Retention
from stoker.watchdog.journal.records import Incident, IncidentTold, Interval, Record, SampleRecord
from stoker.watchdog.journal.store import Store
from tests.watchdog.journal.records import ACTION, EACH, INCIDENT, url_of

DEADLINE_S = 30.0
LATER = Incident("i9", "swap", 300.0, "swap grew", {})


class Heard:
    """Who is told how the database does."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.failed = asyncio.Event()
        self.recovered = asyncio.Event()

    def journal_failed(self, sentence: str) -> None:
        self.failures.append(sentence)
        self.failed.set()

    def journal_recovered(self) -> None:
        self.recovered.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0.02)
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    monkeypatch.setattr(store_module, "LOCK_PATIENCE_MS", 20)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "stoker.db"


@contextlib.asynccontextmanager
async def running(file: Path, heard: Heard) -> AsyncIterator[Journal]:
    journal = Journal(url_of(file), Retention(full_s=60.0, kept_s=3600.0), heard)
    async with asyncio.timeout(DEADLINE_S):
        task = asyncio.create_task(journal.run())
        yield journal
        journal.stop()
        await task


def rows(file: Path, table: str) -> int:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


async def eventually(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # a file of another thread's has no event
        await asyncio.sleep(0.01)


def spoil(file: Path) -> None:
    file.write_bytes(b"this was a journal once" * 1000)


async def in_file(file: Path, record: Record) -> bool:
    store = await Store.opened(url_of(file))
    try:
        return record in await store.all(type(record))
    finally:
        await store.close()


async def test_what_is_recorded_is_in_the_database_when_the_journal_has_stopped(file: Path, heard: Heard) -> None:
    async with running(file, heard) as journal:
        for record in EACH:
            journal.put(record)
    for record in EACH:
        assert await in_file(file, record)
    assert heard.failures == []


async def test_incidents_are_read_back_with_what_still_waits_to_be_written(file: Path, heard: Heard) -> None:
    async with running(file, heard) as journal:
        journal.put(INCIDENT)
        await eventually(lambda: file.exists() and journal.waiting == 0)
        journal.put(closed := msgspec.structs.replace(INCIDENT, closed_at=400.0))
        journal.put(ACTION)
        journal.put(LATER)
        assert await journal.incidents(since=0.0) == [IncidentTold(closed, (ACTION,)), IncidentTold(LATER)]
        assert await journal.incidents(since=1e9) == [IncidentTold(LATER)]


async def test_intervals_are_read_back_with_what_still_waits_to_be_written(file: Path, heard: Heard) -> None:
    async with running(file, heard) as journal:
        journal.put(first := Interval("tree", 1.0, 2.0, "down"))
        await eventually(lambda: file.exists() and journal.waiting == 0)
        journal.put(second := Interval("tree", 2.0, 9.0, "up"))
        assert await journal.intervals("tree", since=0.0) == [first, second]


async def test_while_the_database_is_locked_records_wait_and_none_is_lost(file: Path, heard: Heard) -> None:
    await (await Store.opened(url_of(file))).close()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with running(file, heard) as journal:
            journal.put(INCIDENT)
            await heard.failed.wait()
            journal.put(LATER)
            assert [told.incident for told in await journal.incidents(since=0.0)] == [INCIDENT, LATER]
            other.execute("COMMIT")
            await heard.recovered.wait()
    assert rows(file, "incidents") == 2
    assert len(heard.failures) == 1 and "locked" in heard.failures[0]


async def test_while_the_disk_is_full_records_wait_and_none_is_lost(
    file: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store_module._prepare_sqlite
    full = True

    def prepare(connection: object, record: object) -> None:
        real(connection, record)
        if full:
            # SQLite's own way to be full: it fails as it does on a file system that has no room.
            cursor = connection.cursor()  # type: ignore[attr-defined]
            cursor.execute("PRAGMA max_page_count = 24")
            cursor.close()

    monkeypatch.setattr(store_module, "_prepare_sqlite", prepare)
    async with running(file, heard) as journal:
        for at in range(100):
            journal.put(SampleRecord(float(at), "x" * 2000))
        await heard.failed.wait()
        journal.put(INCIDENT)
        full = False
        await heard.recovered.wait()
    assert "full" in heard.failures[0]
    assert (rows(file, "samples"), rows(file, "incidents")) == (100, 1)


@pytest.mark.parametrize("pages", [4, 10, 17, 24])
async def test_tables_that_a_full_disk_leaves_half_made_are_made_once_there_is_room(
    pages: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store_module._prepare_sqlite

    def full(connection: object, record: object) -> None:
        real(connection, record)
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        cursor.close()

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_prepare_sqlite", full)
        with pytest.raises(JournalUnavailable, match="full"):
            await Store.opened(url_of(file))
    store = await Store.opened(url_of(file))
    await store.write(EACH)
    await store.close()


async def test_a_damaged_file_is_set_aside_and_a_new_one_begun(file: Path, heard: Heard) -> None:
    spoil(file)
    async with running(file, heard) as journal:
        journal.put(INCIDENT)
        await heard.recovered.wait()
    (aside,) = file.parent.glob("stoker.db.damaged-*Z")
    assert aside.read_bytes().startswith(b"this was a journal once")
    assert "set aside" in heard.failures[0] and str(aside) in heard.failures[0]
    assert await in_file(file, INCIDENT)


async def test_a_file_that_was_deleted_is_begun_anew(file: Path, heard: Heard) -> None:
    async with running(file, heard) as journal:
        journal.put(INCIDENT)
        await eventually(lambda: file.exists() and journal.waiting == 0)
        await asyncio.to_thread(file.unlink)
        journal.put(LATER)
        await heard.recovered.wait()
    assert await in_file(file, LATER)


async def test_a_folder_that_comes_back_has_everything(tmp_path: Path, heard: Heard) -> None:
    folder, away = tmp_path / "disk", tmp_path / "away"
    folder.mkdir()
    file = folder / "stoker.db"
    async with running(file, heard) as journal:
        journal.put(INCIDENT)
        await eventually(lambda: file.exists() and journal.waiting == 0)
        folder.rename(away)
        journal.put(LATER)
        await heard.failed.wait()
        away.rename(folder)
        await heard.recovered.wait()
    assert rows(file, "incidents") == 2


async def test_a_database_that_hangs_holds_up_neither_who_records_nor_who_reads_nor_the_end(
    file: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = asyncio.Event()

    async def hang(self: Store, records: object) -> None:
        hung.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Store, "write", hang)
    monkeypatch.setattr(module, "CLOSE_PATIENCE_S", 0.05)
    async with running(file, heard) as journal:
        journal.put(INCIDENT)
        await hung.wait()
        journal.put(LATER)
        assert [told.incident for told in await journal.incidents(since=0.0)] == [INCIDENT, LATER]


async def test_a_flood_of_samples_costs_the_oldest_samples_and_nothing_else(
    file: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_SAMPLES", 10)
    journal = Journal(url_of(file), Retention(60.0, 3600.0), heard)
    journal.put(INCIDENT)
    for at in range(25):
        journal.put(SampleRecord(float(at), "{}"))
    assert (journal.waiting, journal.dropped) == (11, 15)


async def test_old_samples_are_thinned_when_asked(file: Path, heard: Heard) -> None:
    async with running(file, heard) as journal:
        for at in range(100):
            journal.put(SampleRecord(float(at), "{}"))
        await eventually(lambda: file.exists() and journal.waiting == 0)
        journal.thin()
        await eventually(lambda: rows(file, "samples") == 0)


async def test_a_failure_that_nobody_foresaw_ends_neither_the_journal_nor_the_tree(
    file: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Store.write

    async def fail(self: Store, records: Sequence[Record]) -> None:
        monkeypatch.setattr(Store, "write", real)
        raise ValueError("no active connection")

    monkeypatch.setattr(Store, "write", fail)
    async with running(file, heard) as journal:
        journal.put(INCIDENT)
        await heard.recovered.wait()
    assert heard.failures == ["the journal failed: ValueError: no active connection"]
    assert rows(file, "incidents") == 1


async def test_damage_that_a_check_finds_sets_the_file_aside(
    file: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(file, heard) as journal:
        journal.put(INCIDENT)
        await eventually(lambda: file.exists() and journal.waiting == 0)

        async def damaged(self: Store) -> None:
            raise JournalDamaged("a page contradicts another")

        monkeypatch.setattr(Store, "check", damaged)
        journal.check()
        await heard.recovered.wait()
        journal.put(LATER)
    assert list(file.parent.glob("stoker.db.damaged-*Z"))
    assert await in_file(file, LATER)


WRITER = """
import asyncio, sys, time
from stoker.watchdog.journal.journal import Journal, Retention
from stoker.watchdog.journal.records import SampleRecord

class Deaf:
    def journal_failed(self, sentence): pass
    def journal_recovered(self): pass

async def write():
    journal = Journal(sys.argv[1], Retention(3600.0, 36000.0), Deaf())
    task = asyncio.create_task(journal.run())
    for number in range(1_000_000):
        journal.put(SampleRecord(time.time(), "{}"))
        print(time.time(), flush=True)
        await asyncio.sleep(0.01)

asyncio.run(write())
"""


async def test_a_killed_process_loses_no_more_than_the_last_moments(file: Path) -> None:
    def run_and_kill() -> list[float]:
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, url_of(file)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            told = [float(process.stdout.readline()) for _ in range(800)]
            os.kill(process.pid, signal.SIGKILL)
            return told

    told = await asyncio.to_thread(run_and_kill)
    store = await Store.opened(url_of(file))
    kept = [sample.at for sample in await store.all(SampleRecord)]
    await store.close()
    # What is a second old is written; three more are for a machine that has other things to do.
    assert kept[-1] > told[-1] - 4
    assert len(kept) >= sum(at <= kept[-1] for at in told)

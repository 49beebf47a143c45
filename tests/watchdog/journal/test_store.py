"""The journal's database, for real: SQLite in a file, and the SQL that PostgreSQL would get."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from stoker.watchdog.journal.errors import JournalDamaged, JournalUnavailable
from stoker.watchdog.journal.migrations import migrate
from stoker.watchdog.journal.records import Incident, IncidentTold, Interval, Record, SampleRecord
from stoker.watchdog.journal.store import Store, set_aside
from stoker.watchdog.journal.tables import TABLES, metadata
from tests.watchdog.journal.records import ACTION, EACH, INCIDENT, url_of


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.opened(url_of(tmp_path / "stoker.db"))
    yield opened
    await opened.close()


@pytest.mark.parametrize("record", EACH, ids=lambda record: type(record).__name__)
async def test_what_was_written_is_read_back(store: Store, record: Record) -> None:
    await store.write([record])
    assert await store.all(type(record)) == [record]


@pytest.mark.parametrize("record", EACH, ids=lambda record: type(record).__name__)
def test_a_record_and_its_table_agree_about_what_tells_it_from_others(record: Record) -> None:
    table = TABLES[type(record)]
    assert record.key == tuple(getattr(record, column.name) for column in table.primary_key)
    assert [column.name for column in table.columns] and {column.name for column in table.columns} == set(
        msgspec.structs.asdict(record)
    )


async def test_a_later_record_with_the_same_key_takes_the_place_of_the_earlier(store: Store) -> None:
    await store.write(EACH)
    closed = msgspec.structs.replace(INCIDENT, closed_at=200.0)
    await store.write([closed])
    assert await store.all(Incident) == [closed]


async def test_incidents_are_told_with_their_actions(store: Store) -> None:
    old = Incident("i0", "swap", 10.0, "swap grew", {}, closed_at=20.0)
    await store.write([INCIDENT, ACTION, old])
    assert await store.incidents(since=50.0) == [IncidentTold(INCIDENT, (ACTION,))]
    assert [told.incident for told in await store.incidents(since=15.0)] == [old, INCIDENT]


async def test_incidents_of_an_earlier_watchdog_end_with_it(store: Store) -> None:
    later = Incident("i2", "swap", 500.0, "swap grew", {})
    await store.write([INCIDENT, later])
    await store.close_incidents(opened_before=400.0, at=450.0)
    assert [each.closed_at for each in await store.all(Incident)] == [450.0, None]


async def test_old_samples_are_kept_one_a_minute_and_older_ones_not_at_all(store: Store) -> None:
    await store.write([SampleRecord(float(at), "{}") for at in range(0, 600, 5)])
    await store.thin(full_since=480.0, kept_since=120.0)
    kept = [sample.at for sample in await store.all(SampleRecord)]
    assert kept == [*range(120, 480, 60), *range(480, 600, 5)]


async def test_open_incidents_outlive_every_retention(store: Store) -> None:
    closed = Incident("i3", "swap", 10.0, "swap grew", {}, closed_at=20.0)
    await store.write([INCIDENT, closed])
    await store.thin(full_since=1e9, kept_since=1e9)
    assert await store.all(Incident) == [INCIDENT]


async def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "stoker.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(JournalDamaged, match=r"stoker\.db is damaged: file is not a database"):
        await Store.opened(url_of(tmp_path / "stoker.db"))


async def test_a_page_that_was_overwritten_is_damage(tmp_path: Path) -> None:
    file = tmp_path / "stoker.db"
    store = await Store.opened(url_of(file))
    await store.write([SampleRecord(float(at), "x" * 1000) for at in range(100)])
    await store.close()
    content = bytearray(file.read_bytes())
    content[-40_000:] = b"\xff" * 40_000
    file.write_bytes(content)
    damaged = await Store.opened(url_of(file))
    with pytest.raises(JournalDamaged):
        await damaged.check()
    with pytest.raises(JournalDamaged):
        await damaged.all(SampleRecord)
    await damaged.close()


async def test_a_whole_database_passes_its_check(store: Store) -> None:
    await store.write(EACH)
    await store.check()


async def test_a_locked_database_is_unavailable_and_then_it_is_not(tmp_path: Path, store: Store) -> None:
    other = sqlite3.connect(tmp_path / "stoker.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(JournalUnavailable, match="locked"):
        await store.write(EACH)
    other.execute("COMMIT")
    other.close()
    await store.write(EACH)


async def test_a_file_that_was_moved_away_is_noticed(tmp_path: Path, store: Store) -> None:
    (tmp_path / "stoker.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(JournalUnavailable, match="is not the file any more"):
        await store.write(EACH)


async def test_a_journal_of_a_later_stoker_is_left_alone(tmp_path: Path, store: Store) -> None:
    other = sqlite3.connect(tmp_path / "stoker.db")
    other.execute("UPDATE alembic_version SET version_num = '9999'")
    other.commit()
    other.close()
    with pytest.raises(JournalUnavailable, match="9999"):
        await Store.opened(url_of(tmp_path / "stoker.db"))


def test_a_damaged_file_is_set_aside_whole(tmp_path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"stoker.db{suffix}").write_text(suffix)
    moved = set_aside(url_of(tmp_path / "stoker.db"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert moved == tmp_path / "stoker.db.damaged-20260102T030405Z"
    assert sorted(file.name.removeprefix(moved.name) for file in tmp_path.iterdir()) == ["", "-shm", "-wal"]


def test_a_server_has_no_file_to_set_aside() -> None:
    assert set_aside("postgresql+asyncpg://journal", datetime.now(UTC)) is None


def test_the_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'stoker.db'}")
    with engine.begin() as connection:
        migrate(connection)
        assert differences(connection) == []
        migrate(connection)
    engine.dispose()


def differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_postgresql_could_hold_every_table(table: object) -> None:
    sql = str(CreateTable(table).compile(dialect=postgresql.dialect()))  # type: ignore[arg-type, no-untyped-call]
    assert "DOUBLE PRECISION" in sql and "PRIMARY KEY" in sql


async def test_intervals_are_those_of_one_child_that_lasted_long_enough(store: Store) -> None:
    wanted = Interval("tree", 10.0, 20.0, "up")
    await store.write([Interval("tree", 1.0, 5.0, "down"), wanted, Interval("service", 10.0, 20.0, "ready")])
    assert await store.intervals("tree", since=7.0) == [wanted]

"""The way to the journal's database: SQLite in a file, or PostgreSQL by its URL.

Every failure is `JournalUnavailable`, which passes, or `JournalDamaged`, which does not.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from alembic.util import CommandError
from sqlalchemy import (
    Connection,
    Integer,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    event,
    func,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from .errors import JournalDamaged, JournalUnavailable
from .migrations import migrate
from .records import ActionRecord, DeliveryRecord, Incident, IncidentTold, Interval, Record, SoakInterval
from .tables import TABLES, actions, deliveries, incidents, intervals, samples, soak_intervals, verdicts

LOCK_PATIENCE_MS = 2000
POOL_PATIENCE_S = 5.0
CONNECTIONS = 2
"""One for the writer, one for a reader: who reads must not see half of what is being written."""
THINNED_TO_S = 60
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

T = TypeVar("T", bound=Record)


class _Replace:
    """What puts records of one kind in the place of those with their keys; made once, because making it costs more than
    the database needs for it."""

    def __init__(self, table: Table) -> None:
        self._key = [column.name for column in table.primary_key]
        same = and_(*(column == bindparam(f"key_{column.name}") for column in table.primary_key))
        self.delete = delete(table).where(same)
        self.insert = insert(table)

    def keys(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {f"key_{name}": row[name] for name in self._key}


_REPLACE = {kind: _Replace(table) for kind, table in TABLES.items()}


class Store:
    """An open database. Made by `opened`."""

    def __init__(self, url: str) -> None:
        """Raises `JournalUnavailable` when the URL is none, or its driver is not installed."""
        try:
            self._engine = _engine(url)
        except (SQLAlchemyError, ImportError) as error:
            message = (
                f"the journal cannot be opened: {error}; docs/operating.md says what `watchdog.journal.url` may be"
            )
            raise JournalUnavailable(message) from error
        self._name = self._engine.url.render_as_string(hide_password=True)
        self._file = sqlite_file(url)
        self._inode: int | None = None

    @classmethod
    async def opened(cls, url: str) -> Store:
        """Connect, and bring the tables up to date."""
        store = cls(url)
        try:
            with _failures_of(store._name):
                async with store._engine.begin() as connection:
                    await connection.run_sync(migrate)
        except BaseException:
            await store.close()
            raise
        store._inode = _inode(store._file)
        return store

    async def close(self) -> None:
        await self._engine.dispose()

    async def write(self, records: Sequence[Record]) -> None:
        """All or nothing; a record replaces what has its key."""
        self._require_its_file()
        with _failures_of(self._name):
            async with self._engine.begin() as connection:
                for kind, group in groupby(sorted(records, key=_kind_order), key=type):
                    replace = _REPLACE[kind]
                    rows = [msgspec.structs.asdict(record) for record in group]
                    await connection.execute(replace.delete, [replace.keys(row) for row in rows])
                    await connection.execute(replace.insert, rows)

    async def thin(self, full_since: float, kept_since: float) -> None:
        """Of the samples before `full_since` keep the first of each minute; before `kept_since` keep nothing."""
        # Databases differ in how they make an integer of it, which shifts minutes but keeps them apart.
        minute = cast(samples.c.at / THINNED_TO_S, Integer)
        firsts = select(func.min(samples.c.at)).where(samples.c.at < full_since).group_by(minute)
        with _failures_of(self._name):
            async with self._engine.begin() as connection:
                await connection.execute(delete(samples).where(samples.c.at < full_since, samples.c.at.not_in(firsts)))
                for table, column in (
                    (samples, samples.c.at),
                    (verdicts, verdicts.c.at),
                    (actions, actions.c.at),
                    (intervals, intervals.c.until),
                    (incidents, incidents.c.closed_at),
                    (deliveries, deliveries.c.ended_at),
                    (soak_intervals, soak_intervals.c.until),
                ):
                    await connection.execute(delete(table).where(column < kept_since))

    async def check(self) -> None:
        """Read every page of a SQLite file. Raises `JournalDamaged` when it contradicts itself."""
        if self._file is None:
            return
        with _failures_of(self._name):
            async with self._engine.connect() as connection:
                verdict = (await connection.execute(text("PRAGMA quick_check(1)"))).scalar_one()
        if verdict != "ok":
            raise JournalDamaged(f"the journal {self._name} is damaged: {verdict}")

    async def close_incidents(self, opened_before: float, at: float) -> None:
        """Those of an earlier watchdog ended with it: what still stands is found again."""
        left_open = incidents.c.closed_at.is_(None) & (incidents.c.opened_at < opened_before)
        with _failures_of(self._name):
            async with self._engine.begin() as connection:
                await connection.execute(update(incidents).where(left_open).values(closed_at=at))

    async def incidents(self, since: float) -> list[IncidentTold]:
        """Those that were open after `since`, oldest first."""
        lasted = or_(incidents.c.closed_at.is_(None), incidents.c.closed_at >= since)
        with _failures_of(self._name):
            async with self._engine.connect() as connection:
                found = await connection.execute(select(incidents).where(lasted).order_by(incidents.c.opened_at))
                rows = [Incident(**row) for row in found.mappings()]
                ids = [incident.id for incident in rows]
                of_these = actions.c.incident.in_(ids)
                done = await connection.execute(select(actions).where(of_these).order_by(actions.c.at))
                acts = [ActionRecord(**row) for row in done.mappings()]
                of_these = deliveries.c.incident.in_(ids)
                sent = await connection.execute(select(deliveries).where(of_these).order_by(deliveries.c.at))
                told = [DeliveryRecord(**{**row, "line": ""}) for row in sent.mappings()]
        return [
            IncidentTold(
                each,
                tuple(act for act in acts if act.incident == each.id),
                tuple(delivery for delivery in told if delivery.incident == each.id),
            )
            for each in rows
        ]

    async def deliveries_left(self, before: float) -> list[DeliveryRecord]:
        """Of ends of incidents before `before`: what is not over, and beginnings that no end was ever made for."""
        ended = select(deliveries.c.incident).where(deliveries.c.status == "resolved")
        endless = (deliveries.c.status == "firing") & deliveries.c.incident.not_in(ended)
        left = (deliveries.c.at < before) & or_(deliveries.c.outcome.is_(None), endless)
        with _failures_of(self._name):
            async with self._engine.connect() as connection:
                found = await connection.execute(select(deliveries).where(left).order_by(deliveries.c.at))
                return [DeliveryRecord(**row) for row in found.mappings()]

    async def intervals(self, child: str, since: float) -> list[Interval]:
        """Those that lasted past `since`, oldest first."""
        wanted = (intervals.c.child == child) & (intervals.c.until >= since)
        with _failures_of(self._name):
            async with self._engine.connect() as connection:
                found = await connection.execute(select(intervals).where(wanted).order_by(intervals.c.since))
                return [Interval(**row) for row in found.mappings()]

    async def soak_intervals(self, run: str) -> list[SoakInterval]:
        """Those of one run, oldest first."""
        wanted = select(soak_intervals).where(soak_intervals.c.run == run).order_by(soak_intervals.c.number)
        with _failures_of(self._name):
            async with self._engine.connect() as connection:
                found = await connection.execute(wanted)
                return [SoakInterval(**row) for row in found.mappings()]

    async def all(self, kind: type[T]) -> list[T]:
        """Every record of a kind, in the order of its key."""
        table = TABLES[kind]
        with _failures_of(self._name):
            async with self._engine.connect() as connection:
                found = await connection.execute(select(table).order_by(*table.primary_key))
                return [kind(**row) for row in found.mappings()]

    def _require_its_file(self) -> None:
        """SQLite writes on into a file that was deleted or moved away, and nobody would ever read it there."""
        if _inode(self._file) != self._inode:
            raise JournalUnavailable(f"{self._file} is not the file any more that it was; it is opened anew")


def sqlite_file(url: str) -> Path | None:
    """The database's file; None for a database that is a server's."""
    prefix = "sqlite+aiosqlite:///"
    return Path(url.removeprefix(prefix)) if url.startswith(prefix) else None


def set_aside(url: str, at: datetime) -> Path | None:
    """Move a damaged SQLite file, and what SQLite keeps beside it, out of the way; returns where it is now.

    Raises `JournalUnavailable` when it cannot be moved.
    """
    file = sqlite_file(url)
    if file is None:
        return None
    moved = file.with_name(f"{file.name}.damaged-{at:%Y%m%dT%H%M%SZ}")
    try:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                file.with_name(file.name + suffix).rename(moved.with_name(moved.name + suffix))
    except OSError as error:
        raise JournalUnavailable(f"the damaged journal {file} cannot be moved away: {error.strerror}") from error
    return moved


def _engine(url: str) -> AsyncEngine:
    engine = create_async_engine(url, pool_size=CONNECTIONS, max_overflow=0, pool_timeout=POOL_PATIENCE_S)
    if sqlite_file(url) is not None:
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _prepare_sqlite(connection: Any, _: object) -> None:
    """Readers and the writer must not wait for each other; a power failure may cost the last moments, no more."""
    cursor = connection.cursor()
    for pragma in (f"busy_timeout = {LOCK_PATIENCE_MS}", "journal_mode = WAL", "synchronous = NORMAL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
    # Python's own transactions begin with the first change of a row. A table that is made before would stay when what
    # makes the next one fails, and the next opening would meet it.
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _kind_order(record: Record) -> str:
    return type(record).__name__


def _inode(file: Path | None) -> int | None:
    try:
        return None if file is None else file.stat().st_ino
    except OSError:
        return None


@contextlib.contextmanager
def _failures_of(name: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            raise JournalDamaged(f"the journal {name} is damaged: {error.orig}") from error
        raise JournalUnavailable(f"the journal {name} cannot be used: {error.orig}") from error
    except (SQLAlchemyError, CommandError, OSError) as error:
        raise JournalUnavailable(f"the journal {name} cannot be used: {error}") from error

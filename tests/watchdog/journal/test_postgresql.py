"""The journal in a real PostgreSQL: the same records and the same questions; and databases that cannot be opened."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from stoker.watchdog.journal.errors import JournalUnavailable
from stoker.watchdog.journal.journal import Journal, Retention
from stoker.watchdog.journal.records import IncidentTold, SampleRecord
from stoker.watchdog.journal.store import Store
from tests.watchdog.journal.postgresql_server import postgresql, programs
from tests.watchdog.journal.records import ACTION, DELIVERY, EACH, INCIDENT
from tests.watchdog.journal.test_journal import Heard

PROGRAMS = programs()
needs_driver = pytest.mark.skipif(importlib.util.find_spec("asyncpg") is None, reason="asyncpg is not installed")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    if PROGRAMS is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with postgresql(PROGRAMS) as folder:
        yield f"postgresql+asyncpg://stoker@/postgres?host={folder}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = await Store.opened(url)
    yield store
    # A connection that stays open would keep the server from ending.
    await store.close()


@needs_driver
async def test_everything_is_kept_read_back_and_thinned(store: Store) -> None:
    await store.write(EACH)
    await store.write(EACH)
    for record in EACH:
        assert record in await store.all(type(record))
    told = {each.incident.id: each for each in await store.incidents(0.0)}
    assert told[INCIDENT.id] == IncidentTold(INCIDENT, (ACTION,), (msgspec.structs.replace(DELIVERY, line=""),))
    await store.write([SampleRecord(float(at), "{}") for at in range(600, 1200, 5)])
    await store.thin(full_since=900.0, kept_since=660.0)
    kept = [sample.at for sample in await store.all(SampleRecord)]
    assert len([at for at in kept if at < 900]) == 4
    assert len([at for at in kept if at >= 900]) == 60
    await store.check()


@needs_driver
async def test_tables_that_are_there_are_opened_as_they_are(store: Store, url: str) -> None:
    await store.write(EACH)
    another = await Store.opened(url)
    assert INCIDENT in await another.all(type(INCIDENT))
    await another.close()


@needs_driver
async def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="cannot be used"):
        await Store.opened(f"postgresql+asyncpg://stoker@/postgres?host={tmp_path}")


@pytest.mark.parametrize("url", ["postgresql+nosuchdriver://stoker@localhost/postgres", "no url at all"])
async def test_a_database_that_nothing_can_open_is_told_and_ends_nothing(url: str) -> None:
    heard = Heard()
    journal = Journal(url, Retention(60.0, 3600.0), heard)
    task = asyncio.create_task(journal.run())
    await asyncio.wait_for(heard.failed.wait(), 30)
    journal.stop()
    await task
    assert "docs/operating.md" in heard.failures[0]

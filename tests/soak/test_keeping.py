"""Runs in the journal's database: kept, found again, and not lost while it cannot be written."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from stoker.soak.errors import NoSuchRun
from stoker.soak.keeping import RUNNING, Keeping, Run
from tests.soak.made import BEGAN, PLAN, hours, run_of
from tests.watchdog.journal.records import url_of

CUT = Run("20270116-080000-beef", BEGAN + 1e5, PLAN)


@pytest.fixture
async def keeping(tmp_path: Path) -> AsyncIterator[Keeping]:
    async with contextlib.aclosing(Keeping(url_of(tmp_path / "stoker.db"))) as opened:
        yield opened


async def test_a_run_and_its_intervals_are_read_back_as_they_were(keeping: Keeping) -> None:
    intervals = hours(0.5)
    over = run_of(intervals)
    assert await keeping.save(over, intervals)
    assert await keeping.save(CUT)
    assert await keeping.runs() == [over, CUT]
    assert await keeping.intervals(over.id) == intervals
    assert await keeping.unfinished() == CUT


async def test_a_run_is_found_by_the_beginning_of_its_name(keeping: Keeping) -> None:
    over = run_of(hours(0.5))
    await keeping.save(over)
    await keeping.save(CUT)
    assert await keeping.run("20270116") == await keeping.run("last") == CUT
    for name, problem in (("2027", "2 soak runs begin with"), ("1999", "there is no soak run")):
        with pytest.raises(NoSuchRun, match=problem):
            await keeping.run(name)


async def test_a_home_without_runs_stays_as_it_is(keeping: Keeping, tmp_path: Path) -> None:
    assert await keeping.runs() == []
    assert await keeping.unfinished() is None
    assert files_of(tmp_path) == []


def files_of(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_intervals_wait_for_a_database_that_cannot_be_written(tmp_path: Path) -> None:
    folder, intervals = tmp_path / "away", hours(0.1)
    async with contextlib.aclosing(Keeping(url_of(folder / "stoker.db"))) as keeping:
        assert not await keeping.save(CUT, intervals[:2])
        assert not await keeping.save(CUT, intervals[2:4])
        folder.mkdir()
        assert await keeping.save(CUT, intervals[4:])
        assert await keeping.intervals(CUT.id) == intervals
        assert (await keeping.run("last")).state == RUNNING


async def test_what_a_run_becomes_replaces_what_it_was(keeping: Keeping) -> None:
    await keeping.save(CUT)
    stopped = msgspec.structs.replace(CUT, state="stopped", ended_at=BEGAN)
    await keeping.save(stopped)
    assert await keeping.runs() == [stopped]

"""A run in the journal's database: written after every interval, so that another process can go on with it.

The database may fail as it likes: what cannot be written waits for the next interval, and the run goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import structlog

from ..watchdog.journal.errors import JournalDamaged, JournalUnavailable
from ..watchdog.journal.records import Record, SoakInterval, SoakRun
from ..watchdog.journal.store import Store, sqlite_file
from .errors import NoSuchRun
from .gates import Verdict
from .intervals import Interval
from .plan import Plan
from .summary import Summary

log = structlog.get_logger(__name__)

RUNNING = "running"
ENDED = "ended"
STOPPED = "stopped"
LEFT_OUT = "left_out"


class Result(msgspec.Struct, frozen=True):
    """What a run came to."""

    summary: Summary
    verdict: Verdict


class Run(msgspec.Struct, frozen=True):
    """A run as it is kept."""

    id: str
    began_at: float
    plan: Plan
    state: str = RUNNING
    ended_at: float | None = None
    result: Result | None = None


class Keeping:
    """Where runs are kept. Use `aclose` when done."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: Store | None = None
        self._waiting: list[Interval] = []

    async def aclose(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def save(self, run: Run, new: Sequence[Interval] = ()) -> bool:
        """Write the run and its new intervals, with those that could not be written before; False when that failed."""
        self._waiting += new
        records: list[Record] = [_run_record(run), *(_interval_record(run.id, each) for each in self._waiting)]
        try:
            await (await self._opened()).write(records)
        except (JournalUnavailable, JournalDamaged) as error:
            log.warning("soak_not_kept", error=str(error), waiting=len(self._waiting))
            await self.aclose()
            return False
        self._waiting.clear()
        return True

    async def runs(self) -> list[Run]:
        """All of them, oldest first. Raises the journal's errors; a home where nothing was ever kept stays as it is."""
        file = sqlite_file(self._url)
        if file is not None and not await asyncio.to_thread(file.exists):
            return []
        records = await (await self._opened()).all(SoakRun)
        return sorted(map(_run, records), key=lambda run: run.began_at)

    async def run(self, name: str) -> Run:
        """By its id, the beginning of it, or `last`. Raises `NoSuchRun`."""
        runs = await self.runs()
        found = runs[-1:] if name == "last" else [run for run in runs if run.id.startswith(name)]
        if len(found) != 1:
            problem = "there is no soak run" if not found else f"{len(found)} soak runs begin with"
            raise NoSuchRun(f"{problem} `{name}`; `stoker soak list` has them all")
        return found[0]

    async def unfinished(self) -> Run | None:
        """The newest run that is not over."""
        return next((run for run in reversed(await self.runs()) if run.state == RUNNING), None)

    async def intervals(self, run: str) -> list[Interval]:
        """Of one run, oldest first. Raises the journal's errors."""
        kept = await (await self._opened()).soak_intervals(run)
        return [msgspec.json.decode(each.line, type=Interval) for each in kept]

    async def _opened(self) -> Store:
        self._store = self._store or await Store.opened(self._url)
        return self._store


def _run_record(run: Run) -> SoakRun:
    return SoakRun(
        id=run.id,
        began_at=run.began_at,
        state=run.state,
        plan=msgspec.json.encode(run.plan).decode(),
        ended_at=run.ended_at,
        verdict=None if run.result is None else run.result.verdict.outcome.value,
        result=None if run.result is None else msgspec.json.encode(run.result).decode(),
    )


def _run(record: SoakRun) -> Run:
    return Run(
        id=record.id,
        began_at=record.began_at,
        plan=msgspec.json.decode(record.plan, type=Plan),
        state=record.state,
        ended_at=record.ended_at,
        result=None if record.result is None else msgspec.json.decode(record.result, type=Result),
    )


def _interval_record(run: str, interval: Interval) -> SoakInterval:
    line = msgspec.json.encode(interval).decode()
    return SoakInterval(run, interval.number, interval.since, interval.until, line)

"""When soak runs are due: APScheduler, with its times in the journal's database, so that one missed while the machine
was off comes late instead of never.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import structlog
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

from ..config import Paths, Scheduled

LATE_S = 24 * 3600
"""A run that was due longer ago than this waits for its next time."""
TABLE = "soak_jobs"

log = structlog.get_logger(__name__)


class SoakSchedule:
    """Runs begin at their times for as long as the block lasts. Its thread waits for the database, nobody else does."""

    def __init__(self, schedule: Sequence[Scheduled], paths: Paths, journal_url: str) -> None:
        self._schedule = schedule
        self._home = str(paths.home)
        self._scheduler = _scheduler(journal_url)

    async def __aenter__(self) -> None:
        try:
            await asyncio.to_thread(self._start)
        except Exception as error:
            # The journal's database may fail as it likes, and with any error of its driver's: then no run is begun.
            log.exception("soak_schedule_failed", error=str(error))

    def next_times(self) -> dict[str, str]:
        """When each job comes next, by its id."""
        return {job.id: str(job.next_run_time) for job in self._scheduler.get_jobs()}

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def _start(self) -> None:
        self._scheduler.start(paused=True)
        wanted = {_job_id(each): each for each in self._schedule}
        known = {job.id for job in self._scheduler.get_jobs()}
        for gone in known - set(wanted):
            self._scheduler.remove_job(gone)
        # A job that is kept keeps its next time, past or not.
        for new in set(wanted) - known:
            each = wanted[new]
            trigger = CronTrigger.from_crontab(each.cron)
            self._scheduler.add_job(
                begin, trigger, args=[self._home, arguments(each)], id=new, misfire_grace_time=LATE_S
            )
        self._scheduler.resume()


def _scheduler(journal_url: str) -> BackgroundScheduler:
    prefix = "sqlite+aiosqlite:"
    if not journal_url.startswith(prefix):
        # APScheduler's store wants a driver that blocks, which the journal's PostgreSQL does not come with.
        return BackgroundScheduler(job_defaults={"coalesce": True})
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    store = SQLAlchemyJobStore(url="sqlite:" + journal_url.removeprefix(prefix), tablename=TABLE)
    return BackgroundScheduler(jobstores={"default": store}, job_defaults={"coalesce": True})


def _job_id(scheduled: Scheduled) -> str:
    """Another schedule is another job."""
    return hashlib.sha256(scheduled.model_dump_json().encode()).hexdigest()[:16]


def arguments(scheduled: Scheduled) -> list[str]:
    """What `stoker soak run` is told."""
    given = ["--scheduled", "--duration", f"{scheduled.duration:.0f}s", "--workload", scheduled.workload]
    given += ["--scale", str(scheduled.scale)]
    given += [word for rule in scheduled.chaos for word in ("--chaos", rule)]
    return [*given, "--even-when-busy"] if scheduled.even_when_busy else given


def begin(home: str, given: list[str]) -> None:
    """Start `stoker soak run` on the tree of that home; it goes its own way."""
    logs = Paths(Path(home)).logs
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (logs / "soak.log").open("ab") as log_file:
        subprocess.Popen(
            [str(Path(sys.executable).with_name("stoker")), "soak", "run", *given],
            env={**os.environ, "STOKER_HOME": home},
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
        )

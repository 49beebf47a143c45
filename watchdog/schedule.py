"""What happens at its time: canaries, the comparison of cached answers, the journal's retention and integrity.

APScheduler keeps the times. A late job runs once, not once for each time it was missed, and never twice at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from ..config import Canary as CanarySettings
from .canary import Canary
from .journal.journal import Journal

THIN_EVERY_S = 600.0
CHECK_EVERY_S = 24 * 3600.0


@contextlib.contextmanager
def scheduled(settings: CanarySettings, canary: Canary, journal: Journal) -> Iterator[None]:
    """Everything runs at its time for as long as the block does."""
    scheduler = AsyncIOScheduler(job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": 60})
    scheduler.add_job(canary.ask, "interval", seconds=settings.every_s)
    scheduler.add_job(canary.recheck, "interval", seconds=settings.recheck_s)
    scheduler.add_job(canary.compare, "interval", seconds=settings.compare_every_s)
    scheduler.add_job(journal.thin, "interval", seconds=THIN_EVERY_S)
    scheduler.add_job(journal.check, "interval", seconds=CHECK_EVERY_S)
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=False)

"""Soak runs as the watchdog knows them: what they tell, the one to go on with after a restart, those that are due.

A run is a process of its own (`stoker soak run`), which outlives a watchdog that dies. It alone knows how to be one:
here it is only begun, and heard.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from ..config import Config, Paths, SoakProcess
from .home import write_private
from .incidents import SOAK
from .journal.records import SoakRun
from .soak_news import GateOutcome, SoakNews
from .soak_schedule import SoakSchedule, begin
from .watching import Records

log = structlog.get_logger(__name__)


class Soaks:
    """Run `run` as a task for as long as the tree lives."""

    def __init__(self, config: Config, paths: Paths, records: Records) -> None:
        self._config = config
        self._paths = paths
        self._records = records
        self._url = config.watchdog.journal.url or paths.journal_url

    def hear(self, news: SoakNews) -> None:
        """A run's own word. One that failed is an incident until another passes."""
        self._records.metrics.soak(news)
        if news.active:
            return
        if news.verdict is GateOutcome.FAIL:
            self._records.incidents.begin(SOAK, f"soak run {news.run} failed: {news.sentence}", {"run": news.run})
        elif news.verdict is GateOutcome.PASS:
            self._records.incidents.end(SOAK)

    async def run(self) -> None:
        """Ends only by cancellation, or when there is nothing to do; that something fails here ends no tree."""
        try:
            await self._attend()
        except Exception:
            log.exception("soaks_unattended")

    async def _attend(self) -> None:
        config = self._config
        told = SoakProcess(
            journal_url=self._url,
            needs_key=config.server.api_keys is not None,
            telemetry=config.telemetry,
            soak=config.soak,
        )
        write_private(self._paths.child_settings("soak"), told.model_dump_json().encode())
        runs = await self._records.journal.soak_runs()
        self._show_last(runs)
        if any(run.state == "running" for run in runs):
            log.info("soak_resumed", run=runs[-1].id)
            await asyncio.to_thread(begin, str(self._paths.home), ["--resume"])
        if config.soak.schedule:
            async with SoakSchedule(config.soak.schedule, self._paths, self._url):
                await asyncio.Event().wait()

    def _show_last(self, runs: list[SoakRun]) -> None:
        """The metrics of the last verdict outlive the watchdog that heard it."""
        results = [run.result for run in runs if run.result is not None]
        if results:
            verdict: dict[str, Any] = msgspec.json.decode(results[-1])["verdict"]
            gates = {gate["gate"]: GateOutcome(gate["outcome"]) for gate in verdict["gates"]}
            self._records.metrics.soak(SoakNews(runs[-1].id, False, GateOutcome(verdict["outcome"]), "", gates))

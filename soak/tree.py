"""The tree under test, as a run sees it: through the watchdog's interface, which may be gone at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from ..config import Paths
from ..watchdog.client import WatchdogClient
from ..watchdog.errors import NotRunning, Refused
from ..watchdog.home import serving_path
from ..watchdog.journal import records
from ..watchdog.journal.uptime import DOWN, OFF
from ..watchdog.samples import Sample, decode
from ..watchdog.soak_news import SoakNews
from ..watchdog.status import Status
from .intervals import IncidentSeen, Spell

T = TypeVar("T")


class Tree(Protocol):
    """What a run asks of a tree. None is no answer."""

    @property
    def wanted(self) -> bool:
        """Whether it should be there: False once somebody has stopped it."""

    async def status(self) -> Status | None: ...

    async def samples(self) -> list[Sample]: ...

    async def spells(self, window_s: float) -> list[records.Interval] | None: ...

    async def incidents(self, window_s: float) -> list[IncidentSeen]: ...

    async def tell(self, news: SoakNews) -> None:
        """How the run does, for metrics and incidents; a watchdog that is gone hears nothing."""


class RunningTree:
    """The one on a `$STOKER_HOME`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    @property
    def wanted(self) -> bool:
        # A tree that is stopped takes this file away, one that is killed cannot.
        return serving_path(self._paths).exists()

    async def status(self) -> Status | None:
        return await self._ask(WatchdogClient.status)

    async def samples(self) -> list[Sample]:
        lines = await self._ask(WatchdogClient.samples)
        return [] if lines is None else list(decode(lines.splitlines(keepends=True), "the watchdog's answer"))

    async def spells(self, window_s: float) -> list[records.Interval] | None:
        return await self._ask(lambda client: client.spells(window_s))

    async def incidents(self, window_s: float) -> list[IncidentSeen]:
        past = await self._ask(lambda client: client.past(window_s))
        return [] if past is None else [_seen(told) for told in past.incidents]

    async def tell(self, news: SoakNews) -> None:
        await self._ask(lambda client: client.tell_soak(news))

    async def _ask(self, what: Callable[[WatchdogClient], T]) -> T | None:
        def ask() -> T | None:
            try:
                return what(WatchdogClient(self._paths))
            except (NotRunning, Refused):
                return None

        return await asyncio.to_thread(ask)


def _seen(told: records.IncidentTold) -> IncidentSeen:
    incident = told.incident
    actions = tuple(f"{action.kind}: {action.outcome or 'under way'}" for action in told.actions)
    return IncidentSeen(incident.id, incident.kind, incident.opened_at, incident.summary, incident.closed_at, actions)


def covered(spells: Iterable[records.Interval] | None, since: float, until: float, wanted: bool) -> tuple[Spell, ...]:
    """What the tree was, without a gap and each moment once. Where nobody says, it was down, or off if not wanted."""
    missing = DOWN if wanted else OFF
    found: list[Spell] = []
    reached = since
    for spell in spells or ():
        begins, ends = max(spell.since, reached), min(spell.until, until)
        if ends <= begins:
            continue
        if begins > reached:
            found.append(Spell(reached, begins, missing))
        found.append(Spell(begins, ends, spell.state))
        reached = ends
    if reached < until:
        found.append(Spell(reached, until, missing))
    return tuple(found)

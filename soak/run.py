"""One soak run as a story: load without pause, a look every few seconds, chaos at its times, an interval written down.

The run's state is its plan and its intervals, nothing else: a process that ends at any moment loses the interval under
way, and the next one goes on after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Protocol

import msgspec

from ..watchdog.journal import records
from ..watchdog.soak_news import GateOutcome, SoakNews
from .acts import Acts
from .chaos import planned
from .chaos_log import ChaosLog
from .gates import judge
from .intervals import IncidentSeen, Interval, Tally
from .keeping import ENDED, STOPPED, Keeping, Result, Run
from .outcome import Outcome
from .references import References
from .summary import summarized
from .tree import Tree, covered

LOOK_S = 5.0
UNWANTED_PATIENCE_S = 30.0
"""A tree that somebody has stopped may be one that is being restarted by hand."""
MOST_JUDGEMENTS = 60
"""While it runs: what they cost grows with the run, so in a long one not every interval is judged."""
INCIDENT_MARGIN_S = 120.0
SPELLS_TRIES, SPELLS_RETRY_S = 10, 3.0
SPELLS_MARGIN_S = 30.0
"""The watchdog counts back from when it answers, which may take a while on a machine that is busy."""
CLOCK_S = 0.001
"""No run is a millisecond short."""


class End(Enum):
    """Why a run's process ends."""

    OVER = "over"
    STOPPED = "stopped"
    """By a person: the run is over, too."""
    PAUSED = "paused"
    """The run goes on later: this process was asked to end, or the tree was stopped."""


class Load(Protocol):
    """Who asks."""

    async def ask(self, number: int, on_outcome: Callable[[Outcome], None], clock: Callable[[], float]) -> None:
        """Until cancelled, or until there is nothing left to ask; each `number` asks other things.

        Outcomes are told in seconds of `clock`."""

    def lag_s(self) -> float:
        """By how much it was itself late since this was called last."""


@dataclass(frozen=True)
class Progress:
    """A run as it stands, for people and for `--json`."""

    run: str
    done_s: float
    left_s: float
    requests: int
    result: Result


@dataclass(frozen=True)
class Parts:
    """What a run needs from outside. `clock` gives seconds since 1970."""

    tree: Tree
    load: Load
    acts: Acts
    keeping: Keeping
    on_progress: Callable[[Progress], None] = lambda progress: None
    clock: Callable[[], float] = time.time


class Soak:
    """One process of a run; `history` is what earlier ones wrote down."""

    def __init__(self, run: Run, history: Sequence[Interval], parts: Parts) -> None:
        self._run = run
        self._parts = parts
        self._bounds = run.plan.bounds
        self.history = list(history)
        """Every interval so far."""
        self._done_s = sum(each.seconds for each in history)
        self._clock = parts.clock
        self._tally = Tally(len(self.history), self._clock())
        self._chaos = ChaosLog()
        self._references = References({q: text for each in history for q, text in each.references.items()})
        self._seen: dict[str, IncidentSeen] = {}
        self._deaths: int | None = None
        self._looked_until = 0.0
        self._unwanted_since: float | None = None
        self._end: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._result: Result | None = None

    def end(self, how: End) -> None:
        """Write the interval under way down and return from `run`."""
        if not self._end.done():
            self._end.set_result(how)

    async def run(self) -> Run:
        """Until its time is over or `end`; returns the run as it is kept then."""
        await self._parts.keeping.save(self._run)
        async with asyncio.TaskGroup() as tasks:
            coroutines = (self._make_chaos(), self._ask(), self._look_again_and_again())
            tasks_of_it = [tasks.create_task(each) for each in coroutines]
            how = await self._count_intervals()
            for task in tasks_of_it:
                task.cancel()
        return await self._close(how)

    async def _count_intervals(self) -> End:
        """One after the other without a gap, until the run has had its time."""
        plan = self._run.plan
        while True:
            length_s = min(plan.interval_s, plan.duration_s - self._done_s)
            how = await self._wait(self._tally.since + length_s)
            if how is None and self._done_s + length_s >= plan.duration_s - CLOCK_S:
                # What the last act of chaos does to the tree belongs to the run, too.
                await self._chaos.calm(self._bounds.recover_within_s)
            await self._finish_interval()
            if how is None and self._done_s >= plan.duration_s - CLOCK_S:
                how = End.OVER
            if how is not None:
                return how
            await self._say(live=True)

    async def _wait(self, until: float) -> End | None:
        """Until then; or why not so long."""
        with contextlib.suppress(TimeoutError):
            # Shielded: a timeout must not cancel what says that the run is to end.
            return await asyncio.wait_for(asyncio.shield(self._end), max(0.0, until - self._clock()))
        return None

    async def _finish_interval(self) -> None:
        await self._look()
        self._tally.lag_s = self._parts.load.lag_s()
        tally, since = self._tally, self._tally.since
        until = self._clock()
        spells = await self._spells(since)
        interval = tally.close(
            until=until,
            spells=covered(spells, since, until, self._parts.tree.wanted),
            incidents=await self._new_incidents(until),
            acts=self._chaos.written(),
        )
        # What ends while this is written belongs to the next one, which begins where this one ended.
        self._tally = Tally(len(self.history) + 1, until)
        self.history.append(interval)
        self._done_s += interval.seconds
        await self._parts.keeping.save(self._run, [interval])

    async def _spells(self, since: float) -> list[records.Interval] | None:
        """What the tree was since then; None when its watchdog stays away.

        One that is slow to answer is no tree that is down: it is asked again, and knows what was meanwhile.
        """
        for _ in range(SPELLS_TRIES):
            spells = await self._parts.tree.spells(self._clock() - since + SPELLS_MARGIN_S)
            if spells is not None or not self._parts.tree.wanted:
                return spells
            await asyncio.sleep(SPELLS_RETRY_S)
        return None

    async def _new_incidents(self, until: float) -> list[IncidentSeen]:
        """Those that began or changed since the interval before; what was wrong before the run is not its own."""
        last = self.history[-1].until if self.history else self._run.began_at
        told = await self._parts.tree.incidents(until - last + INCIDENT_MARGIN_S)
        new = [each for each in told if each.opened_at >= self._run.began_at and self._seen.get(each.id) != each]
        self._seen.update({each.id: each for each in new})
        return new

    async def _close(self, how: End) -> Run:
        if how is not End.PAUSED:
            result = judged(self._run, self.history)
            state = ENDED if how is End.OVER else STOPPED
            self._run = msgspec.structs.replace(self._run, state=state, ended_at=self.history[-1].until, result=result)
            await self._parts.keeping.save(self._run)
        await self._say(live=how is End.PAUSED)
        return self._run

    async def _say(self, live: bool) -> None:
        every = max(1, len(self.history) // MOST_JUDGEMENTS)
        # What an act of chaos costs is explained once it is over, and must not look like a failure before.
        due = len(self.history) % every == 0 and not self._chaos.acting
        if self._result is None or not live or due:
            self._result = self._run.result or judged(self._run, self.history)
        done_s, plan = self._done_s, self._run.plan
        requests = sum(each.requests for each in self.history)
        self._parts.on_progress(Progress(self._run.id, done_s, plan.duration_s - done_s, requests, self._result))
        await self._parts.tree.tell(news_of(self._run.id, self._result, live))

    async def _ask(self) -> None:
        """Load without an end: what a recorded trace has is asked again when it is over."""
        number = len(self.history)
        while True:
            began = self._clock()
            await self._parts.load.ask(number, partial(self._take, began), partial(self._since, began))
            number += 1

    def _since(self, began: float) -> float:
        return self._clock() - began

    def _take(self, began: float, outcome: Outcome) -> None:
        since, until = began + outcome.intended, began + outcome.ended
        self._tally.outcome(outcome, until, disturbed=self._chaos.touches(since, until))
        if self._references.is_first(outcome):
            self._tally.reference(outcome.conversation, outcome.text)
            return
        comparable, parting = self._references.compared(outcome)
        if comparable:
            self._tally.compared(parting)

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_S, self._run.plan.interval_s / 2))
            await self._look()
            self._pause_if_unwanted()

    async def _look(self) -> None:
        """Every sample that the watchdog has taken since the last look."""
        for sample in await self._parts.tree.samples():
            if sample.wall <= max(self._looked_until, self._tally.since):
                continue
            self._looked_until = sample.wall
            self._tally.sample(sample)
            deaths, before = sample.engine_deaths_total, self._deaths
            # Another watchdog counts from 0 again.
            self._tally.deaths += 0 if before is None else deaths - before if deaths >= before else deaths
            self._deaths = deaths

    def _pause_if_unwanted(self) -> None:
        if self._parts.tree.wanted:
            self._unwanted_since = None
            return
        now = self._clock()
        self._unwanted_since = now if self._unwanted_since is None else self._unwanted_since
        if now - self._unwanted_since >= UNWANTED_PATIENCE_S:
            self.end(End.PAUSED)

    async def _make_chaos(self) -> None:
        """One act at a time; those of earlier processes' time were theirs."""
        plan = self._run.plan
        began, done_s = self._clock(), self._done_s
        for act in planned(plan.chaos, plan.duration_s, plan.seed):
            if act.at_s >= done_s:
                await asyncio.sleep(max(0.0, act.at_s - done_s - (self._clock() - began)))
                with self._chaos.under_way(self._clock()):
                    self._chaos.add(await self._parts.acts.do(act.kind, self._bounds.recover_within_s))


def judged(run: Run, intervals: Sequence[Interval]) -> Result:
    """What it came to by the end of these, by the bounds of its own plan."""
    summary = summarized(run.began_at, intervals[-1].until, intervals)
    return Result(summary, judge(summary, run.plan.bounds, run.plan.workload))


def news_of(run: str, result: Result, active: bool) -> SoakNews:
    """A run's state for the watchdog."""
    verdict = result.verdict
    sentence = "; ".join(verdict.reasons) or "every gate was kept"
    gates = {each.gate: each.outcome for each in verdict.gates}
    return SoakNews(run, active, verdict.outcome, sentence, gates)


def passed(run: Run) -> bool:
    """Whether it is over and every gate was kept."""
    return run.result is not None and run.result.verdict.outcome is GateOutcome.PASS

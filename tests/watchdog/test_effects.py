"""What decisions do, to a real child and an engine that only pretends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stoker.config import Engine
from stoker.engine.errors import EngineUnavailable
from stoker.engine.protocol import Reclaimed
from stoker.engine.protocol import Tighten as TightenWord
from stoker.watchdog.decisions import (
    Action,
    Child,
    Decision,
    EmptyPrefixCache,
    Observe,
    OpenCircuit,
    PlannedRestart,
    Reclaim,
    RestartNow,
    Shed,
    Tighten,
)
from stoker.watchdog.effects import Effects, Reach
from stoker.watchdog.journal.records import ActionRecord, Record
from stoker.watchdog.supervisor import State, Supervisor
from stoker.watchdog.verdicts import DetectorName
from tests.watchdog.test_supervisor import DEADLINE_S, LIVES, Script, supervised

SETTINGS = Engine(max_running=16, prefill_chunk=256)


class Pretence:
    """An engine that hears and answers, unless it is away."""

    def __init__(self) -> None:
        self.epoch = 1
        self.away = False
        self.told: list[TightenWord] = []
        self.reclaims: list[int] = []
        self.forgot = 0

    @property
    def hears(self) -> bool:
        return not self.away

    async def reclaim(self, level: int) -> Reclaimed:
        if self.away:
            raise EngineUnavailable("the engine is not ready")
        self.reclaims.append(level)
        return Reclaimed(self.epoch, level, 12_500_000)

    def tighten(self, limits: TightenWord) -> bool:
        if not self.away:
            self.told.append(limits)
        return not self.away

    def forget_kv(self) -> None:
        self.forgot += 1


class Door:
    """The shed level, as somebody wanted it."""

    def __init__(self) -> None:
        self.wanted: list[tuple[int, str]] = []

    def want(self, level: int, reason: str) -> None:
        self.wanted.append((level, reason))


class Stage:
    """Effects, what they reach, and what they wrote down."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.engine = Pretence()
        self.door = Door()
        self.supervisor = supervisor
        self.records: dict[str, ActionRecord] = {}
        self.counted: list[str] = []
        self._ended = asyncio.Event()
        reach = Reach(self.engine, {Child.ENGINE: supervisor, Child.SERVICE: supervisor}, self.door, SETTINGS)
        self.effects = Effects(reach, self._put, self.counted.append)

    def _put(self, record: Record) -> None:
        assert isinstance(record, ActionRecord)
        self.records[record.id] = record
        if record.outcome is not None:
            self._ended.set()

    async def see(self, action: Action) -> ActionRecord:
        """Carry it out; what was written down in the end."""
        self._ended.clear()
        self.effects.carry_out(Decision(1.0, action, "because of this", DetectorName.LEAK, "this"), "incident")
        await self._ended.wait()
        return list(self.records.values())[-1]


@asynccontextmanager
async def stage(role: Script | None = None) -> AsyncIterator[Stage]:
    async with supervised(role or Script(LIVES)) as supervisor:
        await supervisor.until(State.READY)
        on = Stage(supervisor)
        yield on
        await on.effects.close()


async def test_memory_is_given_back_and_how_much_is_written_down() -> None:
    async with stage() as on:
        record = await on.see(Reclaim(2))
    assert on.engine.reclaims == [2]
    assert (record.kind, record.why, record.incident) == ("Reclaim", "because of this", "incident")
    assert record.outcome == "12.5 MB were given back"
    assert record.ended_at is not None and record.ended_at >= record.at
    assert on.counted == ["Reclaim"]


async def test_an_engine_that_is_away_is_an_outcome_and_no_error() -> None:
    async with stage() as on:
        on.engine.away = True
        assert (await on.see(Reclaim(1))).outcome == "not done: the engine is not ready"


@pytest.mark.parametrize(
    ("level", "limits"),
    [
        (0, TightenWord()),
        (1, TightenWord(chunk_tokens=64, speculate=False)),
        (2, TightenWord(max_running=8, chunk_tokens=64, speculate=False)),
    ],
)
async def test_each_level_of_tightening_is_less_work_at_once(level: int, limits: TightenWord) -> None:
    async with stage() as on:
        await on.see(Tighten(level))
    assert on.engine.told == [limits]


async def test_a_new_engine_is_told_what_holds_and_told_once() -> None:
    async with stage() as on:
        await on.see(Tighten(1))
        on.effects.remind()
        assert len(on.engine.told) == 1
        on.engine.epoch = 2
        on.engine.away = True
        on.effects.remind()
        on.engine.away = False
        for _ in range(3):
            on.effects.remind()
        assert len(on.engine.told) == 2
        await on.see(Tighten(0))
        on.engine.epoch = 3
        on.effects.remind()
        assert len(on.engine.told) == 3


async def test_load_is_shed_for_the_reason_that_was_found() -> None:
    async with stage() as on:
        await on.see(Shed(2))
    assert on.door.wanted == [(2, "this")]


@pytest.mark.parametrize("action", [PlannedRestart(Child.ENGINE), RestartNow(Child.SERVICE)], ids=["planned", "now"])
async def test_a_restart_is_over_when_the_child_is_ready_again(action: Action) -> None:
    role = Script(LIVES)
    async with stage(role) as on:
        outcome = (await on.see(action)).outcome
        assert outcome is not None and "was ready again after" in outcome
        assert on.supervisor.snapshot().state is State.READY
    assert role.launches == 2


async def test_a_wrong_prefix_cache_is_forgotten_together_with_the_engine_that_used_it() -> None:
    role = Script(LIVES)
    async with stage(role) as on:
        await on.see(EmptyPrefixCache())
    assert (on.engine.forgot, role.launches) == (1, 2)


@pytest.mark.parametrize("action", [Observe(), OpenCircuit()], ids=["observe", "circuit"])
async def test_what_nothing_is_done_about_is_written_down(action: Action) -> None:
    async with stage() as on:
        assert (await on.see(action)).outcome == "written down"


async def test_an_effect_that_is_under_way_at_the_end_holds_nothing_up() -> None:
    async with stage(Script(LIVES, "input()")) as on:
        on.effects.carry_out(
            Decision(1.0, PlannedRestart(Child.ENGINE), "because of this", DetectorName.LEAK, "this"), None
        )
        await on.supervisor.until(State.STARTING)
        async with asyncio.timeout(DEADLINE_S):
            await on.effects.close()
        (record,) = on.records.values()
        assert record.outcome is None

"""How much is turned away while memory is short, over virtual time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config import Shedding
from stoker.engine.protocol import Heartbeat, Memory, Phase
from stoker.watchdog.memory_pressure import usage
from stoker.watchdog.shedding import NOTHING_SHED, ShedDecision, Usage, decide

SETTINGS = Shedding(thresholds=(0.8, 0.9, 0.95), margin=0.1, hold_s=10.0)
LIMIT = 10_000
shares = st.integers(0, LIMIT + 1000).map(lambda used: used / LIMIT)


class Memories:
    """Readings one after the other, and what was decided at each."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.decisions: list[ShedDecision] = [NOTHING_SHED]
        self.times = [self.now]

    @property
    def level(self) -> int:
        return self.decisions[-1].level

    def read(self, share: float, after_s: float = 1.0) -> ShedDecision:
        self.now += after_s
        decision = decide(self.decisions[-1], Usage("the engine", round(share * LIMIT), LIMIT), self.now, SETTINGS)
        self.decisions.append(decision)
        self.times.append(self.now)
        return decision

    def hold(self, share: float, seconds: int) -> int:
        for _ in range(seconds):
            self.read(share)
        return self.level


def test_a_level_begins_at_once_and_says_why() -> None:
    memories = Memories()
    assert memories.read(0.79).level == 0
    decision = memories.read(0.912)
    assert decision.level == 2
    assert decision.reason == "the engine uses 91.2% of its memory (0.00 of 0.00 GB); level 2 begins at 90%"


def test_levels_end_one_at_a_time_when_memory_has_been_well_below_for_a_while() -> None:
    memories = Memories()
    assert memories.hold(0.96, 5) == 3
    assert memories.hold(0.86, 60) == 3  # Above 95 % less the margin.
    assert memories.hold(0.5, 9) == 3
    assert memories.read(0.5).level == 2
    assert memories.decisions[-1].reason.endswith("level 3 ended after 10 s below 85%")
    assert memories.hold(0.5, 10) == 1
    assert memories.hold(0.5, 10) == 0


def test_a_reading_that_swings_within_the_margin_changes_nothing() -> None:
    memories = Memories()
    for _ in range(500):
        memories.read(0.81)
        memories.read(0.71)
    assert {decision.level for decision in memories.decisions[1:]} == {1}


@given(st.lists(st.tuples(shares, st.floats(0.1, 5.0)), max_size=200))
def test_whatever_memory_does_the_level_is_high_enough_and_falls_seldom(readings: list[tuple[float, float]]) -> None:
    memories = Memories()
    for share, after_s in readings:
        level = memories.read(share, after_s).level
        assert level >= sum(share >= threshold for threshold in SETTINGS.thresholds)
    pairs = list(zip(memories.decisions, memories.decisions[1:], memories.times[1:], strict=False))
    falls = [at for before, after, at in pairs if after.level < before.level]
    assert all(later - earlier >= SETTINGS.hold_s - 1e-6 for earlier, later in pairwise(falls))
    assert all(before.level - after.level <= 1 for before, after, _ in pairs)


@given(st.lists(shares, max_size=50), st.floats(0.0, 0.69))
def test_nothing_is_shed_once_the_cause_is_gone(readings: list[float], after: float) -> None:
    memories = Memories()
    for share in readings:
        memories.read(share)
    assert memories.hold(after, 3 * 10 + 1) == 0


def beat(memory: Memory) -> Heartbeat:
    return Heartbeat(1, 1, Phase.READY, steps=0, last_step_age=None, running=0, waiting=0, memory=memory)


def test_the_engines_memory_counts_where_it_knows_its_limit() -> None:
    assert usage(beat(Memory(active=3, limit=4))) == Usage("the engine", 3, 4)


@pytest.mark.parametrize("heartbeat", [None, beat(Memory()), beat(Memory(active=3)), beat(Memory(active=3, limit=0))])
def test_the_machines_memory_counts_where_it_does_not(heartbeat: Heartbeat | None) -> None:
    machine = usage(heartbeat)
    assert machine.whose == "the machine"
    assert 0 < machine.share < 1

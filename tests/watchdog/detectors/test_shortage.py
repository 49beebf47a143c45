"""How much is to be turned away while memory is short, over virtual time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config import Shedding
from stoker.watchdog.detectors.pressure import PressureDetector
from stoker.watchdog.detectors.shortage import Shortage, Usage, usage
from stoker.watchdog.samples import EngineReading, HostReading
from stoker.watchdog.verdicts import Cause, Level, Number
from tests.watchdog.detectors.feeding import GB, sample

SETTINGS = Shedding(thresholds=(0.8, 0.9, 0.95), margin=0.1, hold_s=10.0)
LIMIT = 10_000
shares = st.integers(0, LIMIT + 1000).map(lambda used: used / LIMIT)


class Memories:
    """Readings one after the other, and what was decided at each."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._shortage = Shortage(SETTINGS)
        self.levels = [0]
        self.times = [self.now]

    def read(self, share: float, after_s: float = 1.0) -> int:
        self.now += after_s
        level = self._shortage.update(Usage("the engine", round(share * LIMIT), LIMIT), self.now)
        self.levels.append(level)
        self.times.append(self.now)
        return level

    def hold(self, share: float, seconds: int) -> int:
        for _ in range(seconds):
            self.read(share)
        return self.levels[-1]


def test_a_level_begins_at_once() -> None:
    memories = Memories()
    assert memories.read(0.79) == 0
    assert memories.read(0.912) == 2


def test_levels_end_one_at_a_time_when_memory_has_been_well_below_for_a_while() -> None:
    memories = Memories()
    assert memories.hold(0.96, 5) == 3
    assert memories.hold(0.86, 60) == 3  # Above 95 % less the margin.
    assert memories.hold(0.5, 9) == 3
    assert memories.read(0.5) == 2
    assert memories.hold(0.5, 10) == 1
    assert memories.hold(0.5, 10) == 0


def test_a_reading_that_swings_within_the_margin_changes_nothing() -> None:
    memories = Memories()
    for _ in range(500):
        memories.read(0.81)
        memories.read(0.71)
    assert set(memories.levels[1:]) == {1}


@given(st.lists(st.tuples(shares, st.floats(0.1, 5.0)), max_size=200))
def test_whatever_memory_does_the_level_is_high_enough_and_falls_seldom(readings: list[tuple[float, float]]) -> None:
    memories = Memories()
    for share, after_s in readings:
        level = memories.read(share, after_s)
        assert level >= sum(share >= threshold for threshold in SETTINGS.thresholds)
    pairs = list(zip(memories.levels, memories.levels[1:], memories.times[1:], strict=False))
    falls = [at for before, after, at in pairs if after < before]
    assert all(later - earlier >= SETTINGS.hold_s - 1e-6 for earlier, later in pairwise(falls))
    assert all(before - after <= 1 for before, after, _ in pairs)


@given(st.lists(shares, max_size=50), st.floats(0.0, 0.69))
def test_nothing_is_shed_once_the_cause_is_gone(readings: list[float], after: float) -> None:
    memories = Memories()
    for share in readings:
        memories.read(share)
    assert memories.hold(after, 3 * 10 + 1) == 0


def held(active: int, limit: int | None = 100 * GB) -> EngineReading:
    return EngineReading(epoch=1, active_bytes=active, cache_bytes=30 * GB, limit_bytes=limit)


HOST = HostReading(memory_bytes=64 * GB, available_bytes=16 * GB)


def test_the_engines_live_memory_counts_where_it_knows_its_limit() -> None:
    assert usage(sample(0, held(60 * GB), HOST)) == Usage("the engine", 60 * GB, 100 * GB)


@pytest.mark.parametrize("engine", [None, EngineReading(epoch=1), held(GB, None), held(GB, 0)])
def test_the_machines_memory_counts_where_it_does_not(engine: EngineReading | None) -> None:
    assert usage(sample(0, engine, HOST)) == Usage("the machine", 48 * GB, 64 * GB)


def test_what_is_not_known_is_not_short() -> None:
    assert usage(sample(0, None, HostReading())) is None
    assert Shortage(SETTINGS).update(None, 0.0) == 0


def test_a_shortage_fires_with_the_first_sample_and_says_how_much_to_shed() -> None:
    verdict = PressureDetector(SETTINGS).update(sample(0, held(91 * GB)))
    assert (verdict.level, verdict.cause, verdict.numbers[Number.SHED_LEVEL]) == (Level.FIRING, Cause.OURS, 2)
    assert verdict.sentence.startswith("the engine uses 91.0% of its memory (91.00 of 100.00 GB)")


def test_a_pool_that_can_be_given_back_sheds_nothing() -> None:
    verdict = PressureDetector(SETTINGS).update(sample(0, held(79 * GB)))
    assert (verdict.level, verdict.numbers[Number.SHED_LEVEL]) == (Level.OK, 0)

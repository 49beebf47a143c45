"""The policy: what it does about each finding, and what it never does, whatever the verdicts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.watchdog.courses import RECOVER_S
from stoker.watchdog.decisions import (
    Action,
    Child,
    CloseCircuit,
    Conditions,
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
from stoker.watchdog.policy import RESTARTS_A_DAY, State, decide
from stoker.watchdog.verdicts import Cause, DetectorName, Level, Verdict
from tests.simulation.policy import check_run, verdict

HOUR_S = 3600.0
QUIET = Conditions(engine_up_s=10 * HOUR_S, quiet_s=600.0)
BUSY = Conditions(engine_up_s=10 * HOUR_S, quiet_s=0.0)
RESTARTS = PlannedRestart | RestartNow


class Life:
    """A policy and its clock."""

    def __init__(self) -> None:
        self.state = State()
        self.now = 0.0
        self.decided: list[Decision] = []

    def live(self, seconds: float, verdicts: Iterable[Verdict] = (), conditions: Conditions = BUSY) -> list[Action]:
        """What is decided while things stay so."""
        known = list(verdicts)
        before = len(self.decided)
        until = self.now + seconds
        while self.now < until:
            self.now += 10.0
            self.state, decided = decide(self.state, known, conditions, self.now)
            self.decided += decided
        return [decision.action for decision in self.decided[before:]]


def test_a_leak_waits_for_a_quiet_minute() -> None:
    life = Life()
    leak = [verdict(DetectorName.LEAK, exhaustion_s=20 * HOUR_S)]
    assert life.live(HOUR_S, leak) == [Observe(), Reclaim(1)]
    assert life.live(60, leak, QUIET) == [PlannedRestart(Child.ENGINE)]


def test_a_leak_that_leaves_no_time_does_not_wait() -> None:
    assert Life().live(300, [verdict(DetectorName.LEAK, exhaustion_s=600)])[-1] == RestartNow(Child.ENGINE)


def test_a_leak_that_is_gone_after_the_restart_is_forgotten() -> None:
    life = Life()
    life.live(HOUR_S, [verdict(DetectorName.LEAK)], QUIET)
    assert not [action for action in life.live(4 * HOUR_S, (), QUIET) if isinstance(action, RESTARTS)]
    assert life.state.courses == {}


def test_pressure_climbs_the_ladder_and_comes_down_again() -> None:
    life = Life()
    climbing = life.live(20 * 60, [verdict(DetectorName.PRESSURE, cause=Cause.OURS)])
    assert climbing == [Reclaim(1), Reclaim(2), Tighten(1), Shed(1), Tighten(2), Shed(2)]
    assert life.live(HOUR_S) == [Shed(1), Tighten(1), Shed(0), Tighten(0)]


def test_memory_that_leaves_no_time_sheds_at_once_and_only_as_long_as_it_says() -> None:
    life = Life()
    short = [verdict(DetectorName.PRESSURE, cause=Cause.OURS, shed_level=level) for level in (3, 2, 0)]
    assert life.live(10, short[:1]) == [Shed(3), Reclaim(1)]
    assert life.live(10, short[1:2]) == [Shed(2)]
    assert life.decided[-1].sentence == "shed load, back from level 3 to 2: pressure is firing by 42"
    assert life.live(10, short[2:]) == [Shed(0)]
    assert (
        life.decided[-1].sentence
        == "shed load, back from level 2 to 0, because this is over: " + life.decided[-1].found
    )


def test_a_fragmented_pool_is_given_back_and_never_costs_a_restart() -> None:
    actions = Life().live(72 * HOUR_S, [verdict(DetectorName.FRAGMENTATION, cause=Cause.POOL)], QUIET)
    assert {type(action) for action in actions} == {Reclaim}


def test_heat_sheds_and_never_restarts() -> None:
    life = Life()
    heat = [verdict(DetectorName.THERMAL), verdict(DetectorName.SLOWDOWN)]
    actions = life.live(72 * HOUR_S, heat, QUIET)
    assert [action for action in actions if not isinstance(action, Observe)] == [Tighten(1), Shed(1)]
    assert life.live(HOUR_S)[:2] == [Shed(0), Tighten(0)]


def test_swap_of_other_programs_is_reported_and_never_restarts() -> None:
    actions = Life().live(72 * HOUR_S, [verdict(DetectorName.SWAP, cause=Cause.OTHERS)], QUIET)
    assert actions[0] == Observe()
    assert {type(action) for action in actions} == {Observe, Reclaim}


def test_a_count_of_resources_near_its_limit_gives_back_then_recycles_in_a_quiet_minute() -> None:
    life = Life()
    assert life.live(HOUR_S, [verdict(DetectorName.RESOURCES)]) == [Reclaim(2)]
    assert life.live(60, [verdict(DetectorName.RESOURCES)], QUIET) == [PlannedRestart(Child.ENGINE)]


def test_a_wrong_cache_is_emptied_once() -> None:
    assert Life().live(HOUR_S, [verdict(DetectorName.CANARY, cause=Cause.WRONG)]) == [EmptyPrefixCache()]


def test_a_crash_loop_opens_the_circuit_until_it_is_over() -> None:
    life = Life()
    assert life.live(HOUR_S, [verdict(DetectorName.CRASHES)]) == [OpenCircuit()]
    assert life.live(HOUR_S, [verdict(DetectorName.STALL)]) == []
    assert life.live(3 * HOUR_S) == [CloseCircuit()]


def test_restarts_that_do_not_help_end_in_a_call_for_a_person() -> None:
    actions = Life().live(20 * HOUR_S, [verdict(DetectorName.STALL)])
    assert [action for action in actions if isinstance(action, RESTARTS)] == [RestartNow(Child.ENGINE)] * RESTARTS_A_DAY
    assert OpenCircuit() in actions


def test_a_restart_by_the_supervisor_starts_the_cool_down_too() -> None:
    just_back = Conditions(engine_up_s=60.0, quiet_s=600.0)
    assert Life().live(HOUR_S, [verdict(DetectorName.STALL)], just_back) == []


def test_one_blink_of_health_does_not_undo_anything() -> None:
    life = Life()
    life.live(20 * 60, [verdict(DetectorName.THERMAL)])
    assert life.live(60) == []
    assert life.live(RECOVER_S, [verdict(DetectorName.THERMAL)]) == []


def test_what_comes_back_soon_is_undone_later_each_time() -> None:
    life = Life()
    changes = 0
    for _ in range(72 * 3):
        changes += len(life.live(600, [verdict(DetectorName.THERMAL)]))
        changes += len(life.live(600))
    assert changes < 72 * 3


def test_what_is_merely_suspect_does_not_keep_load_shed() -> None:
    life = Life()
    life.live(20 * 60, [verdict(DetectorName.PRESSURE, cause=Cause.OURS)])
    assert life.live(HOUR_S, [verdict(DetectorName.PRESSURE, Level.SUSPECT, Cause.OURS)])[-1] == Tighten(0)


def test_another_cause_ends_the_course_of_the_first() -> None:
    life = Life()
    life.live(20 * 60, [verdict(DetectorName.SWAP, cause=None)])
    assert Shed(0) in life.live(HOUR_S, [verdict(DetectorName.SWAP, cause=Cause.OTHERS)])


@pytest.mark.parametrize("name", DetectorName)
def test_nothing_is_decided_on_suspicion(name: DetectorName) -> None:
    assert Life().live(72 * HOUR_S, [verdict(name, Level.SUSPECT)], QUIET) == []


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_the_invariants_hold_whatever_the_verdicts(seed: int) -> None:
    check_run(seed)

"""The restart decision, over years in milliseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config import Restart
from stoker.watchdog.restart import PROBE_MAX_S, Decision, Past, backoff_s, decide

SETTINGS = Restart(intensity=3, period_s=60.0, backoff_initial_s=0.1, backoff_max_s=5.0, backoff_jitter=0.2, probe_s=60)

settings = st.builds(
    Restart,
    intensity=st.integers(1, 20),
    period_s=st.floats(1, 3600),
    backoff_initial_s=st.floats(0.01, 10),
    backoff_max_s=st.floats(0.01, 100),
    backoff_jitter=st.floats(0, 1),
    probe_s=st.floats(1, 10_000),
)
draws = st.floats(0, 1, exclude_max=True)
# A life: how long the child took to become ready and how long it then was; a life of 0 s dies at its start.
lives = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 4000), draws), min_size=1, max_size=60)


def crash(times: int, wanted: Restart = SETTINGS, apart_s: float = 0.0) -> list[Decision]:
    """The decisions about a child that dies `apart_s` after each start without ever being ready."""
    decisions: list[Decision] = []
    past, now = Past(), 0.0
    for _ in range(times):
        decisions.append(decide(past, now, 0.0, wanted, draw=0.0))
        past, now = decisions[-1].past, now + decisions[-1].wait_s + apart_s
    return decisions


def test_the_first_restart_is_immediate_and_each_further_one_waits_twice_as_long() -> None:
    assert [decision.wait_s for decision in crash(3)] == [0.1, 0.2, 0.4]


def test_a_child_that_worked_for_as_long_as_it_would_have_to_wait_is_back_at_once() -> None:
    past = crash(2)[-1].past
    waits = [decide(past, 1.0, ready_for_s, SETTINGS, draw=0.0).wait_s for ready_for_s in (0.0, 0.3, 0.4, 4.0)]
    assert waits == [0.4, pytest.approx(0.1), 0.0, 0.0]


def test_one_death_more_than_the_intensity_opens_the_circuit() -> None:
    assert [decision.past.circuit_open for decision in crash(4)] == [False, False, False, True]


def test_probes_come_ever_more_seldom_up_to_an_hour() -> None:
    assert [decision.wait_s for decision in crash(12)[3:]] == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_a_loop_of_years_still_has_a_bounded_wait() -> None:
    assert crash(3000)[-1].wait_s == PROBE_MAX_S


def test_a_death_after_a_short_probe_keeps_the_circuit_open() -> None:
    opened = crash(4)[-1].past
    assert decide(opened, now=1000.0, ready_for_s=59.0, settings=SETTINGS, draw=0.0).past.circuit_open


def test_a_probe_that_was_ready_for_a_whole_period_has_closed_the_circuit() -> None:
    opened = crash(4)[-1].past
    decision = decide(opened, now=1000.0, ready_for_s=60.0, settings=SETTINGS, draw=0.0)
    assert (decision.wait_s, decision.past.circuit_open) == (0.0, False)


def test_deaths_that_are_a_period_apart_never_open_the_circuit() -> None:
    assert {decision.wait_s for decision in crash(50, apart_s=SETTINGS.period_s + 1)} == {0.1}


@given(settings, st.integers(0, 10_000), draws)
def test_a_backoff_stays_within_its_bounds(wanted: Restart, before: int, draw: float) -> None:
    wait_s = backoff_s(before, wanted, draw)
    shortest = min(wanted.backoff_initial_s, wanted.backoff_max_s) * (1 - wanted.backoff_jitter)
    assert shortest <= wait_s <= wanted.backoff_max_s


@given(settings, lives)
def test_no_period_ever_holds_more_restarts_than_the_intensity(
    wanted: Restart, lived: list[tuple[float, float, float]]
) -> None:
    past, now = Past(), 0.0
    restarts: list[float] = []
    for start_s, ready_for_s, draw in lived:
        now += start_s + ready_for_s
        decision = decide(past, now, ready_for_s, wanted, draw)
        past, now = decision.past, now + decision.wait_s
        if not past.circuit_open:
            restarts.append(now)
        assert sum(due > now - wanted.period_s for due in restarts) <= wanted.intensity


@given(settings, lives)
def test_an_open_circuit_waits_at_least_as_long_each_time(
    wanted: Restart, lived: list[tuple[float, float, float]]
) -> None:
    past = Past(probes=1)
    last_wait_s = wanted.probe_s
    for _, _, draw in lived:
        decision = decide(past, 0.0, 0.0, wanted, draw)
        assert last_wait_s <= decision.wait_s <= max(PROBE_MAX_S, wanted.probe_s)
        past, last_wait_s = decision.past, decision.wait_s

"""Uptime, from intervals alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.watchdog.journal.records import Interval
from stoker.watchdog.journal.uptime import DOWN, OFF, UP, Uptime, uptime


def story(*pieces: tuple[float, float, str]) -> list[Interval]:
    return [Interval("tree", since, until, state) for since, until, state in pieces]


def test_a_tree_that_was_always_up_has_an_uptime_of_one() -> None:
    assert uptime(story((0, 100, UP)), 0, 100).share == 1.0


def test_a_restart_costs_its_own_time() -> None:
    assert uptime(story((0, 90, UP), (90, 95, DOWN), (95, 100, UP)), 0, 100) == Uptime(up_s=95.0, down_s=5.0)


def test_a_killed_watchdog_is_down_until_the_next_one_begins() -> None:
    assert uptime(story((0, 40, UP), (60, 100, UP)), 0, 100) == Uptime(up_s=80.0, down_s=20.0)


def test_a_tree_that_was_stopped_on_purpose_is_off_and_not_down() -> None:
    found = uptime(story((0, 40, UP), (40, 41, OFF), (60, 100, UP)), 0, 100)
    assert (found, found.share) == (Uptime(up_s=80.0, off_s=20.0), 1.0)


def test_nothing_is_said_about_the_time_before_the_first_start() -> None:
    assert uptime(story((50, 100, UP)), 0, 100) == Uptime(up_s=50.0)


def test_what_came_before_the_window_does_not_count() -> None:
    assert uptime(story((0, 50, DOWN), (50, 100, UP)), 60, 100) == Uptime(up_s=40.0)


def test_a_gap_at_the_end_is_time_down() -> None:
    assert uptime(story((0, 40, UP)), 0, 100) == Uptime(up_s=40.0, down_s=60.0)


def test_a_clock_that_was_set_back_counts_no_time_twice() -> None:
    assert uptime(story((0, 60, UP), (30, 100, UP)), 0, 100) == Uptime(up_s=100.0)


def test_nothing_recorded_says_nothing() -> None:
    assert uptime([], 0, 100).share is None


@given(
    st.lists(st.floats(0, 1000), min_size=1, max_size=20),
    st.data(),
)
def test_every_moment_since_the_first_counts_exactly_once(moments: list[float], data: st.DataObject) -> None:
    edges = sorted(moments)
    intervals = [
        Interval("tree", since, data.draw(st.floats(since, until)), data.draw(st.sampled_from([UP, DOWN, OFF])))
        for since, until in pairwise([*edges, 1000.0])
    ]
    found = uptime(intervals, 0.0, 1000.0)
    assert found.up_s + found.down_s + found.off_s == pytest.approx(1000.0 - edges[0])

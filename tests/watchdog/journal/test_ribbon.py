"""The past in pieces: together they say what the whole says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.watchdog.journal.records import Interval
from stoker.watchdog.journal.ribbon import Piece
from stoker.watchdog.journal.ribbon import ribbon as in_pieces
from stoker.watchdog.journal.uptime import DOWN, OFF, UP, Uptime, spells, uptime


def story(*pieces: tuple[float, float, str]) -> list[Interval]:
    return [Interval("tree", since, until, state) for since, until, state in pieces]


def ribbon(told: list[Interval], starts: list[float], since: float, until: float, pieces: int) -> list[Piece]:
    return in_pieces(spells(told, since, until), starts, since, until, pieces)


def test_each_piece_has_its_own_uptime_and_starts() -> None:
    found = ribbon(story((10, 50, UP), (50, 60, DOWN), (60, 100, UP)), [10.0, 55.0], 0, 100, 4)
    assert [piece.uptime for piece in found] == [
        Uptime(up_s=15.0),
        Uptime(up_s=25.0),
        Uptime(up_s=15.0, down_s=10.0),
        Uptime(up_s=25.0),
    ]
    assert [piece.engine_starts for piece in found] == [1, 0, 1, 0]
    assert [(piece.since, piece.until) for piece in found] == [(0, 25), (25, 50), (50, 75), (75, 100)]


def test_a_gap_over_several_pieces_is_what_came_before_it() -> None:
    killed = ribbon(story((0, 10, UP), (90, 100, UP)), [], 0, 100, 10)
    assert [piece.uptime.down_s for piece in killed] == [0, *[10.0] * 8, 0]
    stopped = ribbon(story((0, 10, UP), (10, 10, OFF), (90, 100, UP)), [], 0, 100, 10)
    assert [piece.uptime.off_s for piece in stopped] == [0, *[10.0] * 8, 0]


def test_nothing_is_known_of_the_time_before_the_first_start() -> None:
    assert [piece.uptime for piece in ribbon(story((50, 100, UP)), [], 0, 100, 2)] == [Uptime(), Uptime(up_s=50.0)]
    assert [piece.uptime for piece in ribbon([], [], 0, 100, 2)] == [Uptime(), Uptime()]


@given(
    st.lists(st.integers(0, 1000), min_size=2, max_size=12, unique=True).map(sorted),
    st.lists(st.sampled_from([UP, DOWN, OFF, None]), min_size=11, max_size=11),
    st.integers(1, 50),
)
def test_the_pieces_add_up_to_the_whole(edges: list[int], states: list[str | None], pieces: int) -> None:
    told = [
        Interval("tree", since, until, state)
        for (since, until), state in zip(pairwise(edges), states, strict=False)
        if state is not None
    ]
    whole = uptime(told, 0, 1000)
    found = ribbon(told, [], 0, 1000, pieces)
    for name in ("up_s", "down_s", "off_s"):
        assert sum(getattr(piece.uptime, name) for piece in found) == pytest.approx(getattr(whole, name), abs=1e-6)

"""What a tree was, made of what its watchdog says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.soak.intervals import Spell
from stoker.soak.tree import covered
from stoker.watchdog.journal.records import Interval

STATES = st.sampled_from(["up", "down", "off"])


def told(*pieces: tuple[float, float, str]) -> list[Interval]:
    return [Interval("tree", since, until, state) for since, until, state in pieces]


def test_only_what_lies_in_the_time_counts() -> None:
    spells = told((0, 15, "up"), (15, 17, "down"), (17, 40, "up"))
    assert covered(spells, 10, 20, True) == (Spell(10, 15, "up"), Spell(15, 17, "down"), Spell(17, 20, "up"))


@pytest.mark.parametrize(("wanted", "state"), [(True, "down"), (False, "off")])
def test_where_nobody_says_it_was_down_or_off_if_somebody_stopped_it(wanted: bool, state: str) -> None:
    assert covered(None, 10, 20, wanted) == (Spell(10, 20, state),)
    assert covered(told((0, 12, "up")), 10, 20, wanted) == (Spell(10, 12, "up"), Spell(12, 20, state))


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50), STATES), max_size=8), st.floats(0, 100), st.floats(0.1, 60)
)
def test_every_moment_is_there_once(pieces: list[tuple[float, float, str]], since: float, length: float) -> None:
    spells = told(*sorted((begins, begins + lasts, state) for begins, lasts, state in pieces))
    found = covered(spells, since, since + length, True)
    assert (found[0].since, found[-1].until) == (since, since + length)
    assert all(one.until == other.since for one, other in itertools.pairwise(found))
    assert all(each.until > each.since for each in found)

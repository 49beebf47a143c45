"""Quantiles of a histogram against those of the values themselves."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.soak.histogram import Histogram, merged

SECONDS = st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=200)


def histogram(values: list[float]) -> Histogram:
    made = Histogram()
    for value in values:
        made.add(value)
    return made


@given(SECONDS, st.floats(0.01, 1.0))
def test_a_quantile_is_right_within_one_percent(values: list[float], share: float) -> None:
    rank = max(0, -int(-share * len(values) // 1) - 1)
    assert histogram(values).quantile(share) == pytest.approx(sorted(values)[rank], rel=0.0101)


@given(SECONDS, SECONDS)
def test_merging_is_the_same_as_having_seen_everything(one: list[float], other: list[float]) -> None:
    assert merged([histogram(one), histogram(other)]).counts == histogram([*one, *other]).counts


def test_nothing_has_no_quantile() -> None:
    assert Histogram().quantile(0.5) is None


def test_it_is_the_same_after_it_was_written_down() -> None:
    made = histogram([0.001, 0.5, 12.0])
    assert msgspec.json.decode(msgspec.json.encode(made), type=Histogram) == made

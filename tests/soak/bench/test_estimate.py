"""Medians with intervals that hold what they should, and say nothing where there is nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stoker.soak.bench.estimate import estimate


def test_nothing_measured_is_no_estimate() -> None:
    assert estimate([None, None]) is None


def test_one_value_has_no_interval() -> None:
    found = estimate([2.0])
    assert found is not None
    assert (found.median, found.low, found.high) == (2.0, None, None)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=9))
def test_the_interval_holds_the_median_and_lies_among_the_values(values: list[float]) -> None:
    found = estimate(values)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert min(values) <= found.low <= found.median <= found.high <= max(values)


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        found = estimate(draw.normal(10, 2, 15))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 10 <= found.high
    assert held / 200 > 0.88

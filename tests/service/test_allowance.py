"""Buckets of tokens: what a client may use in a minute, however it comes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.service.allowance import UNBOUNDED, Allowance, Meter


def test_a_bucket_may_be_overdrawn_once_and_fills_again() -> None:
    now = 0.0
    meter = Meter(lambda: now)
    allowance = Allowance(tokens_per_minute=600)
    assert meter.wait_s("a", allowance) == 0
    meter.spend("a", allowance, 1000)
    assert meter.wait_s("a", allowance) == 40.1
    assert meter.wait_s("b", allowance) == 0
    now = 41.0
    assert meter.wait_s("a", allowance) == 0
    now = 1000.0
    meter.spend("a", allowance, 599)
    assert meter.wait_s("a", allowance) == 0, "no more than a minute's worth is kept, and it is all there"
    meter.spend("a", allowance, 1)
    assert meter.wait_s("a", allowance) > 0


def test_without_a_bound_nothing_is_counted() -> None:
    meter = Meter(lambda: 0.0)
    meter.spend("a", UNBOUNDED, 10**9)
    assert meter.wait_s("a", UNBOUNDED) == 0


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50), st.integers(60, 1000))
def test_who_waits_as_long_as_told_never_uses_more_than_the_rate(spends: list[int], per_minute: int) -> None:
    now = 0.0
    meter = Meter(lambda: now)
    allowance = Allowance(tokens_per_minute=per_minute)
    for tokens in spends:
        now += meter.wait_s("a", allowance)
        meter.spend("a", allowance, tokens)
    assert sum(spends[:-1]) <= per_minute * (1 + now / 60)

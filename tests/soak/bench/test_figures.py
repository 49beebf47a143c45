"""Each metric is what its definition says, and absent where the target does not show it."""

from __future__ import annotations

import pytest

from stoker.soak.outcome import Failure, Finding
from tests.soak.outcomes import figure, outcome, seen


def test_latencies_count_from_the_intended_start() -> None:
    late = seen(outcome(intended=-2.0))
    assert figure("ttft_p50", late) == 3.0
    assert figure("tpot_p50", late) == 0.5
    assert figure("decode", late) == 2.0


def test_prefill_leaves_out_what_was_cached() -> None:
    assert figure("prefill", seen(outcome())) == 60.0
    assert figure("prefill", seen(outcome(cached_tokens=None))) == 100.0


def test_throughput_counts_what_came_in_the_window_alone() -> None:
    """Two of the five tokens came before 2 s; the others belong to the time after it."""
    assert figure("throughput", seen(outcome(), window_s=1.9)) == pytest.approx(2 / 1.9)


def test_a_request_that_failed_still_brought_tokens_but_no_latency() -> None:
    broken = seen(outcome(failure=Failure.BROKEN))
    assert figure("throughput", broken) == 0.5
    assert figure("ttft_p50", broken) is None


def test_requests_at_once_is_the_time_that_they_take() -> None:
    assert figure("running", seen(outcome(), outcome(sent=1.0), window_s=4.0)) == pytest.approx((3 + 2) / 4)


def test_refusals_are_no_errors() -> None:
    sitting = seen(outcome(), outcome(failure=Failure.REFUSED), outcome(failure=Failure.TIMEOUT), outcome())
    assert figure("errors", sitting) == 0.25
    assert figure("refusals", sitting) == 0.25


def test_wrong_texts_are_counted() -> None:
    assert figure("insane", seen(outcome(findings=(Finding.WRONG_COUNT, Finding.MOJIBAKE)), outcome())) == 0.5


def test_cache_hits_are_a_share_of_tokens_not_of_requests() -> None:
    assert figure("cache_hits", seen(outcome(), outcome(prompt_tokens=900, cached_tokens=0))) == 0.04
    assert figure("cache_hits", seen(outcome(cached_tokens=None))) is None


def test_crashes_and_uptime_are_what_was_seen_beside_the_load() -> None:
    sitting = seen(outcome(), window_s=36.0, deaths=2, canaries=(True, True, False, True))
    assert figure("crashes", sitting) == 200.0
    assert figure("uptime", sitting) == 0.75


@pytest.mark.parametrize("key", ["crashes", "memory", "start", "uptime"])
def test_what_nobody_can_tell_is_absent_and_not_zero(key: str) -> None:
    assert figure(key, seen(outcome())) is None


def test_a_server_that_counts_no_tokens_gets_one_for_each_arrival() -> None:
    assert figure("tpot_p50", seen(outcome(completion_tokens=None))) == 0.5

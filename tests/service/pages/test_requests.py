"""Requests in a line each, from their traces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.service import telemetry
from stoker.service.pages.history import LENGTH, History
from stoker.service.pages.requests import LATENCY_WINDOW_S, FirstToken, Row, first_token, row
from stoker.service.trace import Attributes, Span, Trace


def trace(root: Attributes, operation: Attributes | None = None, ended_at: float = 2.0) -> Trace:
    made = Trace(Span("POST /v1/messages", 0.0, ended_at, attributes=root), "req", sampled=True)
    if operation is not None:
        made.operation = made.add(Span("chat tiny", 0.0, ended_at, attributes=operation))
    return made


ANSWERED = trace(
    {telemetry.HTTP_STATUS: 200},
    {
        telemetry.USAGE_INPUT: 30,
        telemetry.USAGE_CACHED: 20,
        telemetry.USAGE_OUTPUT: 7,
        telemetry.LATENCY_FIRST_TOKEN: 0.25,
    },
)


def test_an_answer_says_what_it_took() -> None:
    found = row(ANSWERED)
    assert found == Row(ANSWERED.id, found.at, "POST /v1/messages", 200, 2.0, 0.25, 30, 20, 7)


def test_a_request_that_failed_says_why_and_no_more() -> None:
    found = row(trace({telemetry.HTTP_STATUS: 429, telemetry.ERROR_TYPE: "queue_full"}))
    assert (found.status, found.error, found.first_token_s, found.output_tokens) == (429, "queue_full", None, None)


def test_a_canary_is_marked_and_does_not_count() -> None:
    canary = trace({telemetry.HTTP_STATUS: 200, telemetry.CANARY: True}, {telemetry.LATENCY_FIRST_TOKEN: 9.0})
    assert row(canary).canary
    assert first_token([canary], now=3.0) is None
    assert first_token([canary, ANSWERED], now=3.0) == FirstToken(0.25, 0.25, 1)


def test_what_is_long_ago_is_not_right_now() -> None:
    assert first_token([ANSWERED], now=2.0 + LATENCY_WINDOW_S) == FirstToken(0.25, 0.25, 1)
    assert first_token([ANSWERED], now=2.1 + LATENCY_WINDOW_S) is None


@given(st.lists(st.floats(0.001, 100.0), min_size=1, max_size=50))
def test_quantiles_are_waits_that_were(waits: list[float]) -> None:
    traces = [trace({}, {telemetry.LATENCY_FIRST_TOKEN: wait}) for wait in waits]
    found = first_token(traces, now=2.0)
    assert found is not None
    assert found.count == len(waits)
    assert min(waits) - 0.001 <= found.p50 <= found.p95 <= max(waits) + 0.001


def test_the_rate_is_that_of_the_last_seconds() -> None:
    history = History()
    for second in range(20):
        history.note(float(second), 40.0 * second)
    assert history.rate == 40.0
    for second in range(20, 30):
        history.note(float(second), 800.0)
    assert history.rate == 0.0
    assert history.rates[0] == 0.0


def test_the_history_is_bounded() -> None:
    history = History()
    for second in range(2 * LENGTH):
        history.note(float(second), 1.0)
    assert len(history.rates) == LENGTH

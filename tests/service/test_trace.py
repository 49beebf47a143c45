"""The header that joins traces, the rule that keeps them, and the spans that are made of a trail."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import FinishReason, Prefill, Timings
from stoker.service import telemetry
from stoker.service.keeping import WARM_UP, WINDOW, Slowest, kept, sampled
from stoker.service.spans import spans_of
from stoker.service.trace import Remote, Span, Trace, remote_of
from stoker.service.traces import LAST, RING, Traces
from stoker.service.trail import MAX_CHUNKS, Trail

HEADER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Kept:
    """A `Sink` that writes down what it is offered."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []

    def offer(self, trace: Trace) -> None:
        self.traces.append(trace)


def test_a_callers_header_is_read() -> None:
    assert remote_of(HEADER) == Remote(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, sampled=True)
    assert remote_of(HEADER.replace("00-4", "01-4") + "-more") == remote_of(HEADER), "of a later version"
    unsampled = remote_of(HEADER[:-1] + "0")
    assert unsampled is not None
    assert not unsampled.sampled


@given(st.one_of(st.none(), st.text(max_size=60), st.from_regex(r"ff-[0-9a-f]{32}-[0-9a-f]{16}-01", fullmatch=True)))
def test_a_malformed_header_is_as_none(header: str | None) -> None:
    assert remote_of(header) is None


def test_a_header_of_zeros_names_no_span() -> None:
    assert remote_of(f"00-{'0' * 32}-{'1' * 16}-01") is None
    assert remote_of(f"00-{'1' * 32}-{'0' * 16}-01") is None


@given(st.booleans())
def test_our_own_header_can_be_read_by_the_next(is_sampled: bool) -> None:
    trace = Trace(Span("root", 0.0), "req_1", sampled=is_sampled)
    assert remote_of(trace.traceparent) == Remote(trace.trace_id, trace.root.id, is_sampled)


@given(st.integers(1, (1 << 128) - 1))
def test_nothing_is_sampled_at_0_and_everything_at_1(trace_id: int) -> None:
    assert not sampled(trace_id, 0.0, None)
    assert sampled(trace_id, 1.0, None)


def test_about_the_share_that_was_asked_for_is_sampled() -> None:
    traces = Traces(0.25, None)
    count = sum(traces.begin("r", "req", 0.0, None).sampled for _ in range(4000))
    assert 800 < count < 1200


def test_an_exemplar_is_short_enough_for_openmetrics() -> None:
    exemplar = Trace(Span("root", 0.0), "req_1", sampled=True).exemplar
    assert exemplar is not None
    assert sum(len(name) + len(value) for name, value in exemplar.items()) < 128
    assert Trace(Span("root", 0.0), "req_1", sampled=False).exemplar is None


@given(st.lists(st.floats(0, 100), min_size=1, max_size=3 * WINDOW))
def test_about_one_in_twenty_of_a_steady_stream_is_slow(durations: list[float]) -> None:
    slowest = Slowest()
    before: list[float] = []
    for duration in durations:
        is_slow = slowest.add(duration)
        recent = sorted(before[-WINDOW:])
        assert is_slow == (len(recent) >= WARM_UP and duration > recent[int(len(recent) * 0.95)])
        before.append(duration)


def test_errors_resumes_and_the_slowest_are_kept_though_not_sampled() -> None:
    def trace() -> Trace:
        return Trace(Span("root", 0.0, 1.0), "req_1", sampled=False)

    failed, resumed = trace(), trace()
    failed.root.error = "it broke"
    resumed.resumed = True
    assert kept(failed, is_slow=False)
    assert kept(resumed, is_slow=False)
    assert kept(trace(), is_slow=True)
    assert not kept(trace(), is_slow=False)


def test_the_ring_has_the_last_ones_and_finds_them_by_either_name() -> None:
    sink = Kept()
    traces = Traces(1.0, sink)
    for number in range(RING + 5):
        trace = traces.begin("r", f"req_{number}", float(number), None)
        trace.operation = trace.add(Span("chat", number + 0.1))
        traces.end(trace, number + 1.0)
    summaries = traces.snapshot()
    assert [each["request_id"] for each in summaries][:2] == [f"req_{RING + 4}", f"req_{RING + 3}"]
    assert len(summaries) == RING
    assert len(sink.traces) == RING + 5
    assert traces.find("req_0") is None
    last = traces.find(LAST)
    assert last is not None
    assert traces.find(last["trace_id"]) == last == traces.find(f"req_{RING + 4}")
    assert re.fullmatch("[0-9a-f]{32}", last["trace_id"])


def test_requests_that_ask_the_model_for_nothing_push_nothing_out_and_make_nothing_slow() -> None:
    sink = Kept()
    traces = Traces(0.0, sink)
    asked = traces.begin("POST /v1/chat/completions", "req_asked", 0.0, None)
    asked.operation = asked.add(Span("chat", 0.1))
    for number in range(2 * RING):
        traces.end(traces.begin("GET /v1/models", f"req_{number}", 0.0, None), 0.001)
    traces.end(asked, 30.0)
    for _ in range(RING - 1):
        traces.end(traces.begin("GET /v1/models", "req_more", 0.0, None), 0.001)
    assert traces.find("req_asked") is not None
    assert not sink.traces


@st.composite
def trails(draw: st.DrawFn) -> Trail:
    """Any course of a generation: engines that come and die at any point of it."""
    now = 0.0

    def later() -> float:
        nonlocal now
        now += draw(st.floats(0.001, 10))
        return now

    trail = Trail(began_at=later())
    for epoch in range(1, draw(st.integers(0, 3)) + 1):
        trail.handed_over(epoch, later())
        if draw(st.booleans()) and trail.attempt is not None:
            for done in range(draw(st.integers(1, 4))):
                trail.attempt.prefilled(Prefill("a", done, 4, 0), later())
            if draw(st.booleans()):
                trail.tokens(3, later())
                if draw(st.booleans()):
                    # Its KV was needed for others, and is computed again.
                    trail.attempt.prefilled(Prefill("a", 4, 4, 0), later())
        if draw(st.booleans()):
            trail.lost(later())
        else:
            if trail.attempt is not None and trail.attempt.first_token_at is not None:
                trail.finish = FinishReason.STOP
                trail.attempt.timings = Timings(draw(st.floats(0, 100)), 0.1, 0.1, 4)
            break
    if trail.finish is None:
        trail.error = "cancelled"
    trail.ended_at = later()
    return trail


@given(trails())
def test_whatever_happens_spans_nest_and_leave_no_gap(trail: Trail) -> None:
    spans = spans_of(trail)
    assert trail.began_at is not None
    assert trail.ended_at is not None
    for span in spans:
        assert span.end is not None
        outer = (trail.began_at, trail.ended_at)
        if span.parent is not None:
            assert span.parent.end is not None
            outer = (span.parent.start, span.parent.end)
        assert outer[0] <= span.start <= span.end <= outer[1]
        assert all(span.start <= event.at <= span.end for event in span.events)
    # Every moment is queued, prefilled or decoded.
    leaves = sorted((span for span in spans if span.name != telemetry.RESUME), key=lambda span: span.start)
    at = trail.began_at
    for span in leaves:
        assert span.start == at
        at = span.end or at
    assert at == trail.ended_at
    resumes = [span for span in spans if span.name == telemetry.RESUME]
    assert bool(resumes) == any(attempt.lost_at is not None for attempt in trail.attempts)
    assert (spans[-1].attributes.get(telemetry.ERROR_TYPE) is None) == (trail.error is None)


def test_a_prompt_of_many_pieces_leaves_a_bounded_trail() -> None:
    trail = Trail(began_at=0.0)
    trail.handed_over(1, 0.0)
    assert trail.attempt is not None
    for done in range(10_000):
        trail.attempt.prefilled(Prefill("a", done, 10_000, 0), float(done))
    assert len(trail.attempt.chunks) <= MAX_CHUNKS
    assert trail.attempt.chunks[-1].done == 9_999
    assert trail.attempt.chunks[0].done == 0

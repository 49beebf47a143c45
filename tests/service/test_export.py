"""A collector that is dead, slow or failing costs spans, and neither time nor memory: ten minutes of it, at once."""

from __future__ import annotations

import queue
import socket
import threading
import tracemalloc
from collections.abc import Iterator, Sequence

import pytest

from stoker.config import Telemetry
from stoker.service import export
from stoker.service.export import Export
from stoker.service.otlp import OtlpSender
from stoker.service.trace import Span, Trace
from tests.service.collector import http_collector

SPANS = 8
TEN_MINUTES = 600 * 20
"""Traces of ten minutes at twenty requests a second."""


def trace() -> Trace:
    made = Trace(Span("root", 0.0, 1.0), "req_1", sampled=True)
    for _ in range(SPANS - 1):
        made.add(Span("stoker.decode", 0.2, 0.8, attributes={"stoker.epoch": 1}))
    return made


class Told:
    """A sender that takes what it is told to take, once it is let go."""

    def __init__(self) -> None:
        self.takes = True
        self.go = threading.Event()
        self.batches: queue.Queue[Sequence[Trace]] = queue.Queue()

    def send(self, traces: Sequence[Trace]) -> bool:
        self.go.wait()
        self.batches.put(traces)
        return self.takes


@pytest.fixture
def told() -> Iterator[tuple[Told, Export]]:
    sender = Told()
    of_it = Export(lambda: sender)
    yield sender, of_it
    sender.go.set()
    of_it.close()


def test_what_is_offered_is_sent_and_nothing_is_dropped(told: tuple[Told, Export]) -> None:
    sender, of_it = told
    sender.go.set()
    for _ in range(10):
        of_it.offer(trace())
    sent = 0
    while sent < 10:
        batch = sender.batches.get(timeout=10)
        assert sum(len(each.spans) for each in batch) < export.BATCH_SPANS + SPANS
        sent += len(batch)
    assert of_it.dropped == 0


def test_a_stuck_collector_holds_a_bounded_queue_and_what_is_over_it_is_counted(told: tuple[Told, Export]) -> None:
    _, of_it = told
    tracemalloc.start()
    try:
        for number in range(TEN_MINUTES):
            of_it.offer(trace())
            if number == TEN_MINUTES // 10:
                before, _ = tracemalloc.get_traced_memory()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000
    held = export.MAX_QUEUED + export.BATCH_SPANS // SPANS
    assert of_it.dropped >= (TEN_MINUTES - held) * SPANS


def test_what_a_collector_does_not_take_is_counted(told: tuple[Told, Export]) -> None:
    sender, of_it = told
    sender.takes = False
    sender.go.set()
    of_it.offer(trace())
    sender.batches.get(timeout=10)
    of_it.close()
    assert of_it.dropped == SPANS


def test_a_sender_that_raises_is_tried_again() -> None:
    sent: queue.Queue[int] = queue.Queue()

    class Raising:
        def send(self, traces: Sequence[Trace]) -> bool:
            sent.put(len(traces))
            raise RuntimeError("odd")

    of_it = Export(Raising)
    for _ in range(2):
        of_it.offer(trace())
        sent.get(timeout=10)
    of_it.close()
    assert of_it.dropped == 2 * SPANS


def test_a_sender_that_cannot_be_made_is_tried_again() -> None:
    tries: queue.Queue[None] = queue.Queue()

    def connect() -> Told:
        tries.put(None)
        raise ValueError("no such protocol")

    of_it = Export(connect)
    tries.get(timeout=10)
    for _ in range(2):
        of_it.offer(trace())
        tries.get(timeout=10)
    of_it.close()
    assert of_it.dropped == 2 * SPANS


def test_what_is_queued_is_sent_before_the_end(told: tuple[Told, Export]) -> None:
    sender, of_it = told
    for _ in range(5):
        of_it.offer(trace())
    sender.go.set()
    of_it.close()
    assert sum(len(batch) for batch in sender.batches.queue) == 5


def test_a_dead_port_takes_nothing_and_says_so() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        for protocol in ("http", "grpc"):
            settings = Telemetry.model_validate({"otlp_endpoint": url, "otlp_protocol": protocol})
            assert not OtlpSender(settings).send([trace()])


def test_a_collector_that_answers_500_takes_nothing() -> None:
    with http_collector() as collector:
        collector.status = 500
        assert not OtlpSender(Telemetry(otlp_endpoint=collector.url, otlp_protocol="http")).send([trace()])
        assert collector.requests >= 1


def test_a_base_url_and_a_whole_one_are_the_same_collector() -> None:
    with http_collector() as collector:
        for url in (collector.url, f"{collector.url}/", f"{collector.url}/v1/traces"):
            assert OtlpSender(Telemetry(otlp_endpoint=url, otlp_protocol="http")).send([trace()])
            assert collector.headers["path"] == "/v1/traces"
        assert len(collector.spans) == 3 * SPANS

"""The ledger by itself: an engine that is told by hand what to say, and a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from stoker.engine.errors import EngineUnavailable as NoEngine
from stoker.engine.protocol import (
    Finished,
    FinishReason,
    Limits,
    Prefill,
    Ready,
    RejectCode,
    Rejected,
    Sampling,
    Submit,
    Timings,
    Tokens,
)
from stoker.service.entry import Order
from stoker.service.errors import EngineUnavailable, InternalError, QueueFull, ServiceError, ShuttingDown, SlowReader
from stoker.service.ledger import Ledger, Resume
from stoker.service.metrics import Metrics
from stoker.service.telemetry import LedgerTelemetry

RESUME_DEADLINE_S = 60.0
NO_TIME = Timings(queue_s=0.0, prefill_s=0.0, decode_s=0.0, computed_tokens=0)


class Engine:
    """An `EngineClient` that writes down what it is asked."""

    def __init__(self) -> None:
        self.ready: Ready | None = None
        self.submitted: list[Submit] = []
        self.cancelled: list[str] = []

    def submit(self, request: Submit) -> None:
        if self.ready is None:
            raise NoEngine("the engine is not ready")
        self.submitted.append(request)

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)


@dataclass
class Client:
    """A `Receiver` that writes down what it hears."""

    room: int = 1000
    ids: list[int] = field(default_factory=list)
    ends: list[FinishReason | ServiceError] = field(default_factory=list)
    cached: int | None = None

    def started(self, cached_tokens: int) -> None:
        self.cached = cached_tokens

    def tokens(self, ids: Sequence[int]) -> bool:
        assert not self.ends, "tokens after the end"
        if len(self.ids) + len(ids) > self.room:
            return False
        self.ids.extend(ids)
        return True

    def finished(self, reason: FinishReason) -> None:
        self.ends.append(reason)

    def failed(self, error: ServiceError) -> None:
        self.ends.append(error)


class Table:
    """A ledger with everything around it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.engine = Engine()
        self.metrics = Metrics()
        self.ledger = Ledger(LedgerTelemetry(self.metrics), RESUME_DEADLINE_S, clock=lambda: self.now)
        self.ledger.connect(self.engine)
        self.epoch = 0

    def engine_comes(self) -> None:
        self.epoch += 1
        self.engine.ready = Ready(epoch=self.epoch, pid=1, model="m", limits=Limits(4, 4, 100))
        self.ledger.engine_ready(self.engine.ready)

    def engine_dies(self) -> None:
        self.engine.ready = None
        self.ledger.engine_lost("it was killed")

    def add(self, name: str, max_tokens: int = 10, room: int = 1000) -> Client:
        client = Client(room)
        self.ledger.add(order(name, max_tokens, self.now), client)
        return client

    def says(self, *events: Any) -> None:
        for event in events:
            self.ledger.engine_event(event)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"stoker_{name}", labels)


def order(name: str, max_tokens: int, now: float) -> Order:
    return Order(name, [1, 2, 3], Sampling(seed=5), max_tokens, stop_ids=[0], arrived_at=now)


@pytest.fixture
def table() -> Table:
    table = Table()
    table.engine_comes()
    return table


def test_a_request_goes_to_the_engine_and_its_tokens_to_the_client(table: Table) -> None:
    client = table.add("a")
    table.says(Prefill("a", 3, 3, 2), Tokens("a", 0, [7]), Tokens("a", 1, [8, 9]))
    table.says(Finished("a", FinishReason.STOP, NO_TIME))
    assert (client.ids, client.ends, client.cached) == ([7, 8, 9], [FinishReason.STOP], 2)
    assert table.engine.submitted[0].emitted == []


def test_after_a_death_requests_are_handed_over_again_oldest_first_with_what_they_emitted(table: Table) -> None:
    first, second = table.add("first"), table.add("second")
    table.says(Tokens("second", 0, [4]), Tokens("first", 0, [7, 8]))
    table.engine_dies()
    third = table.add("third")
    table.engine.submitted.clear()
    table.engine_comes()
    assert [(submit.id, submit.emitted) for submit in table.engine.submitted] == [
        ("first", [7, 8]),
        ("second", [4]),
        ("third", []),
    ]
    assert all(submit.sampling.seed == 5 for submit in table.engine.submitted)
    table.says(Tokens("first", 2, [9]), Tokens("second", 1, [5]), Tokens("third", 0, [6]))
    assert (first.ids, second.ids, third.ids) == ([7, 8, 9], [4, 5], [6])
    assert table.value("request_resumes_total", outcome="resumed") == 2, "the third never lost an engine"


def test_a_token_that_is_known_is_dropped(table: Table) -> None:
    client = table.add("a")
    table.says(Tokens("a", 0, [7, 8]), Tokens("a", 0, [7, 8]), Tokens("a", 1, [8, 9]))
    assert client.ids == [7, 8, 9]


def test_a_missing_token_ends_the_request_loudly(table: Table) -> None:
    client = table.add("a")
    table.says(Tokens("a", 0, [7]), Tokens("a", 2, [9]))
    assert isinstance(client.ends[0], InternalError)
    assert table.engine.cancelled == ["a"]
    table.says(Tokens("a", 3, [9]))
    assert client.ids == [7]


def test_a_request_that_had_its_last_token_when_the_engine_died_is_finished_without_another(table: Table) -> None:
    client = table.add("a", max_tokens=2)
    table.says(Tokens("a", 0, [7, 8]))
    table.engine_dies()
    table.engine.submitted.clear()
    table.engine_comes()
    assert client.ends == [FinishReason.LENGTH]
    assert table.engine.submitted == []


def test_a_request_that_waits_too_long_for_an_engine_fails(table: Table) -> None:
    client = table.add("a")
    table.now = 100.0
    table.engine_dies()
    table.now += RESUME_DEADLINE_S - 0.1
    table.ledger.expire()
    assert client.ends == []
    table.now += 0.1
    table.ledger.expire()
    assert isinstance(client.ends[0], EngineUnavailable)
    assert table.value("request_resumes_total", outcome=Resume.EXPIRED.value) == 1


def test_an_engine_that_is_stopping_leaves_a_request_to_its_successor(table: Table) -> None:
    client = table.add("a")
    table.says(Rejected("a", RejectCode.STOPPING, "stopping"))
    table.engine_dies()
    table.engine_comes()
    table.says(Tokens("a", 0, [7]), Finished("a", FinishReason.STOP, NO_TIME))
    assert (client.ids, client.ends) == ([7], [FinishReason.STOP])


def test_a_rejection_reaches_the_client_as_an_error(table: Table) -> None:
    client = table.add("a")
    table.says(Rejected("a", RejectCode.QUEUE_FULL, "8 are waiting"))
    (error,) = client.ends
    assert isinstance(error, QueueFull)
    assert str(error) == "8 are waiting"


def test_a_cancelled_request_is_cancelled_once_and_heard_of_no_more(table: Table) -> None:
    client = table.add("a")
    table.ledger.cancel("a")
    table.ledger.cancel("a")
    table.says(Tokens("a", 0, [7]), Finished("a", FinishReason.CANCELLED, NO_TIME))
    assert (client.ids, client.ends, table.engine.cancelled) == ([], [], ["a"])
    assert table.value("requests_cancelled_total") == 1


def test_a_cancellation_that_nobody_asked_for_is_an_error(table: Table) -> None:
    client = table.add("a")
    table.says(Finished("a", FinishReason.CANCELLED, NO_TIME))
    assert isinstance(client.ends[0], InternalError)


def test_a_reader_that_is_too_slow_loses_its_request_alone(table: Table) -> None:
    slow, quick = table.add("slow", room=1), table.add("quick")
    table.says(Tokens("slow", 0, [7]), Tokens("slow", 1, [8]), Tokens("quick", 0, [7]))
    assert isinstance(slow.ends[0], SlowReader)
    assert (quick.ids, quick.ends, table.engine.cancelled) == ([7], [], ["slow"])


def test_everything_can_be_ended_at_once(table: Table) -> None:
    clients = [table.add("a"), table.add("b")]
    table.ledger.fail_all(ShuttingDown("over"))
    assert [[type(end) for end in client.ends] for client in clients] == [[ShuttingDown], [ShuttingDown]]
    assert table.engine.cancelled == ["a", "b"]


def test_times_are_measured_from_arrival_and_between_tokens(table: Table) -> None:
    table.add("a")
    for position, now in enumerate((2.0, 2.5, 3.5)):
        table.now = now
        table.says(Tokens("a", position, [7]))
    table.says(Finished("a", FinishReason.STOP, Timings(0.25, 1.75, 1.5, 3)))
    assert table.value("time_to_first_token_seconds_sum") == 2.0
    assert table.value("inter_token_latency_seconds_sum") == 1.5
    assert table.value("time_per_output_token_seconds_sum") == 0.75
    assert table.value("request_duration_seconds_sum") == 3.5
    assert table.value("queue_seconds_sum") == 0.25
    assert table.value("prompt_tokens_total", source="computed") == 3
    assert table.value("generated_tokens_total") == 3


class EngineComesAndGoes(RuleBasedStateMachine):
    """Whatever happens: each client gets 0, 1, 2, … without gap or repetition, and one end at most."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.clients: dict[str, Client] = {}
        self.given_up: set[str] = set()

    @rule(target=requests, max_tokens=st.integers(1, 6))
    def add(self, max_tokens: int) -> str:
        name = f"r{len(self.clients)}"
        self.clients[name] = self.table.add(name, max_tokens)
        return name

    @rule()
    def come(self) -> None:
        if self.table.engine.ready is None:
            self.table.engine_comes()

    @rule()
    def die(self) -> None:
        if self.table.engine.ready is not None:
            self.table.engine_dies()

    @rule(name=requests, count=st.integers(1, 3))
    def emit(self, name: str, count: int) -> None:
        submit = self._running(name)
        if submit is not None:
            position = len(self.clients[name].ids)
            ids = list(range(position, min(position + count, submit.max_tokens)))
            self.table.says(Tokens(name, position, ids))
            if not ids:
                self.table.says(Finished(name, FinishReason.LENGTH, NO_TIME))

    @rule(name=consumes(requests))
    def leave(self, name: str) -> None:
        self.table.ledger.cancel(name)
        self.given_up.add(name)

    @rule(seconds=st.floats(1, 40))
    def wait(self, seconds: float) -> None:
        self.table.now += seconds
        self.table.ledger.expire()

    @invariant()
    def all_is_in_order(self) -> None:
        self.table.ledger.check_integrity()
        snapshot = self.table.ledger.snapshot()
        open_clients = [name for name in self.clients if name not in self.given_up and not self.clients[name].ends]
        assert snapshot.queued + snapshot.running + snapshot.suspended == len(open_clients)
        for client in self.clients.values():
            assert client.ids == list(range(len(client.ids)))
            assert len(client.ends) <= 1

    def _running(self, name: str) -> Submit | None:
        """What the living engine was last told of a request that is still wanted."""
        if self.table.engine.ready is None or self.clients[name].ends:
            return None
        return next(submit for submit in reversed(self.table.engine.submitted) if submit.id == name)


TestEngineComesAndGoes = EngineComesAndGoes.TestCase
TestEngineComesAndGoes.settings = settings(max_examples=50, stateful_step_count=30)

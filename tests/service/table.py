"""The ledger with everything around it: an engine that is told by hand what to say, and a clock moved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.config import Server
from stoker.engine.errors import EngineUnavailable as NoEngine
from stoker.engine.protocol import FinishReason, Limits, Priority, Ready, Sampling, Submit, Timings, TokenLogprob
from stoker.service.entry import Order, Prefix
from stoker.service.errors import ServiceError
from stoker.service.fairness import Caller
from stoker.service.ledger import Ledger
from stoker.service.metrics import Metrics
from stoker.service.readings import LedgerReadings

RESUME_DEADLINE_S = 60.0
QUEUE_DEADLINE_S = 30.0
READER_DEADLINE_S = 50.0
NO_TIME = Timings(queue_s=0.0, prefill_s=0.0, decode_s=0.0, computed_tokens=0)
ROWS = 4
LIMITS = Limits(max_running=ROWS, max_waiting=4, context_tokens=100)


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
    """A `Receiver` that writes down what it hears, and has `room` for so many tokens."""

    room: int = 1000
    ids: list[int] = field(default_factory=list)
    ends: list[FinishReason | ServiceError] = field(default_factory=list)
    cached: int | None = None

    def started(self, prefix: Prefix) -> None:
        self.cached = prefix.cached

    def resumed(self) -> None: ...

    def tokens(self, ids: Sequence[int], logprobs: Sequence[TokenLogprob]) -> bool:
        assert not self.ends, "tokens after the end"
        self.ids.extend(ids)
        return len(self.ids) < self.room

    def finished(self, reason: FinishReason) -> None:
        self.ends.append(reason)

    def failed(self, error: ServiceError) -> None:
        self.ends.append(error)


class Table:
    """A ledger with everything around it."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.now = 0.0
        self.limits = limits
        self.engine = Engine()
        self.metrics = Metrics()
        server = Server(
            resume_deadline_s=RESUME_DEADLINE_S,
            queue_deadline_s=QUEUE_DEADLINE_S,
            slow_reader_deadline_s=READER_DEADLINE_S,
            quarantine_s=100.0,
        )
        self.ledger = Ledger(LedgerReadings(self.metrics), server, clock=lambda: self.now)
        self.ledger.connect(self.engine)
        self.epoch = 0

    def engine_comes(self) -> None:
        self.epoch += 1
        self.engine.ready = Ready(epoch=self.epoch, pid=1, model="m", limits=self.limits)
        self.ledger.engine_ready(self.engine.ready)

    def engine_dies(self) -> None:
        self.engine.ready = None
        self.ledger.engine_lost("it was killed")

    def engine_drains(self) -> None:
        self.ledger.engine_draining()

    def add(self, name: str, *, room: int = 1000, **more: Any) -> Client:
        """`more` goes to `order`."""
        client = Client(room)
        self.ledger.add(order(name, now=self.now, **more), client)
        return client

    def submitted(self) -> list[str]:
        """Whom the engine was asked to run since this was last called."""
        names = [submit.id for submit in self.engine.submitted]
        self.engine.submitted.clear()
        return names

    def says(self, *events: Any) -> None:
        for event in events:
            self.ledger.engine_event(event)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"stoker_{name}", labels)


def order(
    name: str,
    *,
    now: float = 0.0,
    max_tokens: int = 10,
    key: str = "somebody",
    prompt: Sequence[int] = (1, 2, 3),
    priority: Priority = Priority.INTERACTIVE,
) -> Order:
    return Order(name, list(prompt), Sampling(seed=5), max_tokens, [0], now, Caller(key, priority))

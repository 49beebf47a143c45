"""What is read at a scrape: the ledger as it is, the engine as its last heartbeat says, and nothing made up."""

from __future__ import annotations

import re

from stoker.config import Server
from stoker.engine.protocol import Heartbeat, Memory, Phase
from stoker.service.context import count_from_zero
from stoker.service.ledger import Ledger
from stoker.service.metrics import (
    ENGINE_BATCH_SIZE,
    ENGINE_LAST_STEP_AGE,
    ENGINE_MEMORY,
    ENGINE_STEPS,
    PREFIX,
    READINGS,
    REQUESTS_RUNNING,
    REQUESTS_WAITING,
    SPANS_DROPPED,
    Metrics,
    Reading,
)
from stoker.service.readings import LedgerReadings, LiveCollector

OF_THE_ENGINE = {PREFIX + each.name for each in READINGS} - {
    PREFIX + each.name for each in (REQUESTS_RUNNING, REQUESTS_WAITING, SPANS_DROPPED)
}


class Board:
    """A registry as the service has it, with a clock moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics()
        readings = LedgerReadings(self.metrics)
        self.ledger = Ledger(readings, Server(), clock=lambda: self.now)
        self.metrics.registry.register(LiveCollector(self.ledger, readings.engines, clock=lambda: self.now))

    def names(self) -> set[str]:
        return {family.name for family in self.metrics.registry.collect()}

    def value(self, reading: Reading, **labels: str) -> float | None:
        name = PREFIX + reading.name + ("_total" if reading.counts else "")
        return self.metrics.registry.get_sample_value(name, labels)


def heartbeat(memory: Memory, last_step_age: float | None) -> Heartbeat:
    return Heartbeat(
        epoch=1, pid=1, phase=Phase.READY, steps=7, last_step_age=last_step_age, running=2, waiting=0, memory=memory
    )


def test_nothing_is_said_of_an_engine_that_has_said_nothing() -> None:
    assert not Board().names() & OF_THE_ENGINE


def test_a_heartbeat_is_relayed_as_far_as_it_knows() -> None:
    board = Board()
    board.ledger.engine_heartbeat(heartbeat(Memory(active=5, limit=9), last_step_age=None))
    assert board.value(ENGINE_STEPS) == 7
    assert board.value(ENGINE_BATCH_SIZE) == 2
    assert board.value(ENGINE_MEMORY, kind="active") == 5
    assert board.value(ENGINE_MEMORY, kind="kv") is None
    assert board.value(ENGINE_LAST_STEP_AGE) is None


def test_the_last_step_grows_older_while_no_heartbeat_comes() -> None:
    board = Board()
    board.ledger.engine_heartbeat(heartbeat(Memory(), last_step_age=0.5))
    board.now = 4.0
    assert board.value(ENGINE_LAST_STEP_AGE) == 4.5


def test_every_name_has_the_prefix_and_the_base_unit() -> None:
    board = Board()
    board.ledger.engine_heartbeat(heartbeat(Memory(active=1), last_step_age=0.5))
    for name in board.names():
        assert re.fullmatch(r"stoker_[a-z_]+", name)
        assert not name.endswith(("_ms", "_milliseconds", "_mb", "_created"))


def test_what_seldom_happens_is_there_before_it_does() -> None:
    metrics = Metrics()
    count_from_zero(metrics, "tiny")
    failed = {"model": "tiny", "endpoint": "/v1/messages", "code": "529"}
    assert metrics.registry.get_sample_value("stoker_requests_total", failed) == 0
    assert metrics.registry.get_sample_value("stoker_requests_shed_total", {"reason": "overloaded"}) == 0
    assert metrics.registry.get_sample_value("stoker_request_resumes_total", {"outcome": "quarantined"}) == 0

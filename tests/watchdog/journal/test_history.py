"""What is recorded about children while a supervisor tells of them."""

from __future__ import annotations

import msgspec

from stoker.watchdog.death import Cause, Death
from stoker.watchdog.journal.history import ChildHistory, History, Identity
from stoker.watchdog.journal.records import Incarnation, Interval, Record
from stoker.watchdog.metrics import WatchdogMetrics
from stoker.watchdog.supervisor import State


class Book:
    """Keeps the latest record of each key, as the journal does, and a clock to turn."""

    def __init__(self) -> None:
        self.at = 100.0
        self.kept: dict[object, Record] = {}
        self.history = History(self._put, lambda: self.at)
        self.epoch = 1
        counted = WatchdogMetrics()
        self.engine = self.history.of("engine", lambda: Identity(pid=11, epoch=self.epoch), counted.engine("tiny"))
        self.service = self.history.of("service", lambda: Identity(pid=12), counted.service())

    def _put(self, record: Record) -> None:
        self.kept[type(record), record.key] = record

    def later(self, seconds: float) -> None:
        self.at += seconds

    def intervals(self, child: str) -> list[tuple[str, float]]:
        found = [each for each in self.kept.values() if isinstance(each, Interval) and each.child == child]
        return [(each.state, each.until - each.since) for each in found]

    def incarnations(self, child: str) -> list[Incarnation]:
        return [each for each in self.kept.values() if isinstance(each, Incarnation) and each.child == child]


def start(child: ChildHistory) -> None:
    child.entered(State.STARTING)
    child.became_ready(1.0)
    child.entered(State.READY)


def test_the_tree_is_up_while_every_child_is_ready() -> None:
    book = Book()
    start(book.engine)
    book.later(2)
    start(book.service)
    book.later(10)
    book.engine.entered(State.BACKOFF)
    book.later(3)
    book.engine.entered(State.STARTING)
    book.later(1)
    book.engine.entered(State.READY)
    book.later(5)
    book.history.extend()
    assert book.intervals("tree") == [("down", 2.0), ("up", 10.0), ("down", 4.0), ("up", 5.0)]
    assert book.intervals("engine")[:3] == [("ready", 12.0), ("backoff", 3.0), ("starting", 1.0)]


def test_a_tree_that_is_being_stopped_is_off_whatever_its_children_do() -> None:
    book = Book()
    start(book.engine)
    start(book.service)
    book.history.switched_off()
    book.later(4)
    book.service.entered(State.STOPPING)
    book.history.extend()
    assert book.intervals("tree")[-1] == ("off", 4.0)


def test_an_incarnation_is_recorded_from_its_start_to_its_end() -> None:
    book = Book()
    book.engine.entered(State.STARTING)
    book.later(2)
    book.engine.became_ready(2.0)
    death = Death.now(Cause.KILLED, "killed by SIGKILL", -9, (), None)
    book.engine.ended(death)
    (incarnation,) = book.incarnations("engine")
    assert msgspec.structs.asdict(incarnation) == {
        "child": "engine",
        "started_at": 100.0,
        "epoch": 1,
        "pid": 11,
        "ready_at": 102.0,
        "ended_at": death.at.timestamp(),
        "cause": "killed",
        "reason": "killed by SIGKILL",
        "exit_code": -9,
    }


def test_one_that_was_never_ready_is_recorded_when_it_ends() -> None:
    book = Book()
    book.engine.entered(State.STARTING)
    assert book.incarnations("engine") == []
    book.engine.ended(Death.now(Cause.NOT_READY, "not ready within 120 s", None, (), None))
    (incarnation,) = book.incarnations("engine")
    assert (incarnation.ready_at, incarnation.cause) == (None, "not_ready")


def test_every_start_is_an_incarnation_of_its_own() -> None:
    book = Book()
    for epoch in (1, 2):
        book.epoch = epoch
        start(book.engine)
        book.later(1)
        book.engine.ended(Death.now(Cause.KILLED, "killed by SIGKILL", -9, (), None))
    assert [incarnation.epoch for incarnation in book.incarnations("engine")] == [1, 2]

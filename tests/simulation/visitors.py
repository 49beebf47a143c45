"""The clients of a simulation: what they send, and what they must see whatever happens."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stoker.engine.protocol import FinishReason, Priority, Sampling, Submit, TokenLogprob
from stoker.service.door import Door
from stoker.service.entry import Order, Prefix
from stoker.service.errors import QueueFull, RequestQuarantined, ServiceError, Unavailable
from stoker.service.fairness import Caller
from stoker.service.ledger import Ledger
from tests.simulation.clock import Clock
from tests.simulation.machine import Work, token

LEFT = "left"

SLOW_ROOM = 20
"""Tokens that a slow reader's stream holds."""


@dataclass
class Visitor:
    """One request from its arrival to its one end (a `Receiver`)."""

    work: Work
    order: Order
    clock: Clock
    room: int
    on_full: Callable[[Visitor], None]
    on_end: Callable[[Visitor], None]
    ids: int = 0
    last_news: float = 0.0
    end: FinishReason | ServiceError | str | None = None

    def started(self, prefix: Prefix) -> None:
        assert self.end is None, f"{self.order.id} starts after its end"
        self.last_news = self.clock()

    def resumed(self) -> None: ...

    def tokens(self, ids: Sequence[int], logprobs: Sequence[TokenLogprob]) -> bool:
        assert self.end is None, f"{self.order.id} goes on after its end"
        for position, got in enumerate(ids, self.ids):
            assert got == token(self.work.number, position), f"{self.order.id}: {got} at position {position}"
        self.last_news = self.clock()
        was_full = self.ids >= self.room
        self.ids += len(ids)
        if self.ids >= self.room and not was_full:
            self.on_full(self)
        return self.ids < self.room

    def finished(self, reason: FinishReason) -> None:
        whole = min(self.work.length, self.order.max_tokens)
        assert self.ids == whole, f"{self.order.id} has {self.ids} of {whole} tokens"
        self._end(reason)

    def failed(self, error: ServiceError) -> None:
        self._end(error)

    def read(self, ledger: Ledger) -> None:
        """Take what is there, and have room for more."""
        if self.end is None:
            self.room = self.ids + SLOW_ROOM
            self.last_news = self.clock()
            ledger.caught_up(self.order.id)

    def leave(self, ledger: Ledger) -> None:
        if self.end is None:
            self._end(LEFT)
            ledger.cancel(self.order.id)

    def _end(self, how: FinishReason | ServiceError | str) -> None:
        assert self.end is None, f"{self.order.id} ends twice: {self.end!r} and {how!r}"
        self.end = how
        self.on_end(self)


@dataclass
class Visitors:
    """All of them. `inside` are those in flight."""

    clock: Clock
    random: random.Random
    door: Door
    ledger: Ledger
    inside: dict[str, Visitor] = field(default_factory=dict)
    ended: list[Visitor] = field(default_factory=list)
    refused: int = 0
    _doors: dict[str, contextlib.ExitStack] = field(default_factory=dict)
    _works: dict[int, Work] = field(default_factory=dict)
    _count: int = 0

    def work_of(self, submit: Submit) -> Work:
        """What an engine finds in a submission, which must say what its visitor has."""
        visitor = self.inside.get(submit.id)
        if visitor is not None and visitor.end is None:
            assert len(submit.emitted) == visitor.ids, f"{submit.id} is to go on from a place where it is not"
        return self._works[submit.prompt[0]]

    def come(self, *, poisoned: bool = False, patient: bool = False) -> Visitor | None:
        """A new request; None when it was sent off. A `patient` one neither leaves nor reads slowly."""
        number = self._count
        prompt = [number] + [0] * self.random.randrange(400)
        length = self.random.randrange(100)
        poison = self.random.randrange(len(prompt) + max(length, 1)) if poisoned else None
        self._works[number] = Work(number, length, poison)
        return self._enter(number, prompt, patient)

    def _enter(self, number: int, prompt: list[int], patient: bool) -> Visitor | None:
        self._count += 1
        key = self.random.choice("abcd")
        priority = Priority.BATCH if self.random.random() < 0.1 else Priority.INTERACTIVE
        order = Order(
            id=f"r{self._count}",
            prompt=prompt,
            sampling=Sampling(seed=self._count),
            max_tokens=80,
            stop_ids=[],
            arrived_at=self.clock(),
            caller=Caller(key, priority),
        )
        room = SLOW_ROOM if not patient and self.random.random() < 0.05 else 1000
        visitor = Visitor(self._works[number], order, self.clock, room, self._full, self._out, last_news=self.clock())
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.door.admitted(order.caller))
                self.inside[order.id] = visitor
                self._doors[order.id] = stack.pop_all()
                self.door.submit(order, visitor)
            except ServiceError as error:
                self._sent_off(visitor, error)
                return None
        if not patient and self.random.random() < 0.05:
            self.clock.after(self.random.expovariate(1 / 20), lambda: visitor.leave(self.ledger))
        return visitor

    def _full(self, visitor: Visitor) -> None:
        """Most slow readers catch up sooner or later; the others are stuck for good."""
        if self.random.random() < 0.7:
            self.clock.after(self.random.uniform(0.0, 200.0), lambda: visitor.read(self.ledger))

    def _sent_off(self, visitor: Visitor, error: ServiceError) -> None:
        assert isinstance(error, QueueFull | Unavailable | RequestQuarantined), repr(error)
        says_when = error.retry_after_s is not None and 1 <= error.retry_after_s <= 60
        assert says_when != isinstance(error, RequestQuarantined), f"{error!r}: {error.retry_after_s}"
        self.refused += 1
        visitor.end = error
        self._close_door(visitor)

    def _out(self, visitor: Visitor) -> None:
        self.ended.append(visitor)
        # A handler takes its leave after the ledger has told it of the end.
        self.clock.after(0.0, lambda: self._close_door(visitor))
        if isinstance(visitor.end, RequestQuarantined) and visitor.work.poison is not None:
            self.clock.after(1.0, lambda: self._try_again(visitor))

    def _try_again(self, visitor: Visitor) -> None:
        again = self._enter(visitor.work.number, visitor.order.prompt, patient=True)
        assert again is None, "what was condemned is not let in a second later"

    def _close_door(self, visitor: Visitor) -> None:
        if self.inside.pop(visitor.order.id, None) is not None:
            self._doors.pop(visitor.order.id).close()

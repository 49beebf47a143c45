"""The door that requests come through: who is inside, and who is asked to come back later.

It acts on what `admission` decides. No HTTP here, so that years of visitors can be simulated.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NoReturn

from ..config import Server
from .admission import Arrival, Conditions, Shed, ShedLevel, prompt_refusal, refusal
from .allowance import Meter
from .entry import Order, Receiver
from .errors import QueueFull, ServiceError
from .fairness import Caller
from .ledger import Ledger


class Door:
    """`text_ready` says whether there is a tokenizer; `on_refusal` hears the code of every error a client is sent off
    with."""

    def __init__(
        self,
        server: Server,
        ledger: Ledger,
        text_ready: Callable[[], bool],
        on_refusal: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._ledger = ledger
        self._text_ready = text_ready
        self._on_refusal = on_refusal
        self._meter = Meter(clock)
        self.stopping = False
        self.shed = Shed(ShedLevel.NONE, "nothing is short")
        self._in_flight: Counter[str] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()

    def conditions(self) -> Conditions:
        """What `admission` judges by, at this moment."""
        snapshot = self._ledger.snapshot()
        return Conditions(
            stopping=self.stopping,
            text_ready=self._text_ready(),
            shed=self.shed,
            engine_rows=None if snapshot.limits is None else snapshot.limits.max_running,
            engine_down_s=snapshot.engine_down_s,
            in_flight=self._in_flight.total(),
            clients=len(self._in_flight),
            waiting_tokens=snapshot.waiting_tokens,
            retry_after_s=snapshot.retry_after_s,
        )

    @contextlib.contextmanager
    def admitted(self, caller: Caller) -> Iterator[None]:
        """Be in flight. Raises the `ServiceError` that says why not."""
        key, allowance = caller.key, caller.allowance
        wait_s = self._meter.wait_s(key, allowance)
        arrival = Arrival(caller.priority, self._in_flight[key], allowance, wait_s)
        error = refusal(self.conditions(), arrival, self._server)
        # Who gives way is still on its way out, so asking again would find the queue as full as before.
        if error is not None and not self._made_room(error, caller):
            self._refuse(error)
        self._in_flight[caller.key] += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._left(caller)

    def submit(self, order: Order, receiver: Receiver) -> None:
        """Hand an admitted request to the ledger. Raises the `ServiceError` that says why it is not taken after all."""
        while (error := prompt_refusal(self.conditions(), len(order.prompt), self._server)) is not None:
            if not self._made_room(error, order.caller):
                self._refuse(error)
        self._ledger.add(order, receiver)

    def spent(self, caller: Caller, tokens: int) -> None:
        """An admitted request of theirs used so many tokens."""
        self._meter.spend(caller.key, caller.allowance, tokens)

    async def until_empty(self) -> None:
        """Returns once nothing is in flight."""
        await self._empty.wait()

    def _left(self, caller: Caller) -> None:
        self._in_flight[caller.key] -= 1
        if not self._in_flight[caller.key]:
            # Left in, every client that ever came would count as one that is here.
            del self._in_flight[caller.key]
        if not self._in_flight:
            self._empty.set()

    def _made_room(self, error: ServiceError, caller: Caller) -> bool:
        """A full queue has a place for a client with less than its share: that of one with more, which fails."""
        if not isinstance(error, QueueFull) or not self._ledger.give_way_to(caller.key):
            return False
        self._on_refusal(error.code)
        return True

    def _refuse(self, error: ServiceError) -> NoReturn:
        self._on_refusal(error.code)
        raise error

"""What every handler works with: the parts of the service, and the door that requests come through."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

from aiohttp import web

from ..config import ServiceProcess
from .admission import Arrival, Conditions, Shed, ShedLevel, prompt_refusal, refusal
from .caller import caller_of
from .entry import Order, Receiver
from .errors import ModelNotFound, QueueFull, ServiceError
from .fairness import Caller
from .ledger import Ledger
from .metrics import Metrics
from .text import TextWorker

DEFAULT_MODEL = "default"
"""Always the name of the configured model, whatever it is."""


class Context:
    """The service's parts, and who is inside."""

    def __init__(self, settings: ServiceProcess, ledger: Ledger, text: TextWorker, metrics: Metrics) -> None:
        self.server = settings.server
        self.admin_token_sha256 = settings.admin_token_sha256
        self.model_name = settings.engine.model_name
        self.ledger = ledger
        self.text = text
        self.metrics = metrics
        self.created = int(time.time())
        self.stopping = False
        self.shed = Shed(ShedLevel.NONE, "nothing is short")
        self._configured_context_tokens = settings.engine.context_tokens
        self._in_flight: Counter[str] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()

    def conditions(self) -> Conditions:
        snapshot = self.ledger.snapshot()
        limits = snapshot.limits
        return Conditions(
            stopping=self.stopping,
            text_ready=self.text.ready,
            shed=self.shed,
            engine_rows=None if limits is None else limits.max_running,
            engine_down_s=snapshot.engine_down_s,
            in_flight=self._in_flight.total(),
            clients=len(self._in_flight),
            waiting_tokens=snapshot.waiting_tokens,
            retry_after_s=snapshot.retry_after_s,
        )

    def require_model(self, name: str) -> None:
        """Raises `ModelNotFound`."""
        if name not in (self.model_name, DEFAULT_MODEL):
            known = f"`{self.model_name}`, also called `{DEFAULT_MODEL}`"
            raise ModelNotFound(f"no model `{name}` here; this server has {known}", param="model")

    @contextlib.contextmanager
    def admitted(self, request: web.Request) -> Iterator[Caller]:
        """Be in flight. Raises the `ServiceError` that says why not."""
        caller = caller_of(request)
        arrival = Arrival(caller.priority, self._in_flight[caller.key])
        error = refusal(self.conditions(), arrival, self.server)
        # Who gives way is still on its way out, so asking again would find the queue as full as before.
        if error is not None and not self._made_room(error, caller):
            self._refuse(error)
        self._in_flight[caller.key] += 1
        self._empty.clear()
        try:
            yield caller
        finally:
            self._in_flight[caller.key] -= 1
            # Left in, every client that ever came would stay counted.
            self._in_flight += Counter()
            if not self._in_flight:
                self._empty.set()

    def submit(self, order: Order, receiver: Receiver) -> None:
        """Hand an admitted request to the ledger. Raises the `ServiceError` that says why it is not taken after all."""
        while (error := prompt_refusal(self.conditions(), len(order.prompt), self.server)) is not None:
            if not self._made_room(error, order.caller):
                self._refuse(error)
        self.ledger.add(order, receiver)

    def _made_room(self, error: ServiceError, caller: Caller) -> bool:
        """A full queue has a place for a client with less than its share: that of one with more, which fails."""
        if not isinstance(error, QueueFull) or not self.ledger.give_way_to(caller.key):
            return False
        self.metrics.requests_shed.labels(error.code).inc()
        return True

    def _refuse(self, error: ServiceError) -> NoReturn:
        self.metrics.requests_shed.labels(error.code).inc()
        raise error

    async def until_empty(self) -> None:
        """Returns once nothing is in flight."""
        await self._empty.wait()

    @property
    def context_tokens(self) -> int:
        """The window of the engine that is, or was, there; only for a request that was admitted."""
        limits = self.ledger.snapshot().limits
        assert limits is not None, "admitted, so an engine has been there"
        return min(limits.context_tokens, self._configured_context_tokens or limits.context_tokens)


CONTEXT = web.AppKey("context", Context)

"""What every handler works with: the parts of the service, and the door that requests come through."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from aiohttp import web

from ..config import ServiceProcess
from .admission import Conditions, refusal
from .errors import ModelNotFound
from .ledger import Ledger
from .metrics import Metrics
from .text import TextWorker

DEFAULT_MODEL = "default"
"""Always the name of the configured model, whatever it is."""


class Context:
    """The service's parts, and who is inside."""

    def __init__(self, settings: ServiceProcess, ledger: Ledger, text: TextWorker, metrics: Metrics) -> None:
        self.server = settings.server
        self.model_name = settings.engine.model_name
        self.ledger = ledger
        self.text = text
        self.metrics = metrics
        self.created = int(time.time())
        self.stopping = False
        self._configured_context_tokens = settings.engine.context_tokens
        self._in_flight = 0
        self._empty = asyncio.Event()
        self._empty.set()

    def conditions(self) -> Conditions:
        snapshot = self.ledger.snapshot()
        limits = snapshot.limits
        return Conditions(
            stopping=self.stopping,
            text_ready=self.text.ready,
            engine_capacity=None if limits is None else limits.max_running + limits.max_waiting,
            engine_down_s=snapshot.engine_down_s,
            in_flight=self._in_flight,
        )

    def require_model(self, name: str) -> None:
        """Raises `ModelNotFound`."""
        if name not in (self.model_name, DEFAULT_MODEL):
            known = f"`{self.model_name}`, also called `{DEFAULT_MODEL}`"
            raise ModelNotFound(f"no model `{name}` here; this server has {known}", param="model")

    @contextlib.contextmanager
    def admitted(self) -> Iterator[None]:
        """Be in flight. Raises the `ServiceError` that says why not."""
        error = refusal(self.conditions(), self.server)
        if error is not None:
            self.metrics.requests_shed.labels(error.code).inc()
            raise error
        self._in_flight += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._empty.set()

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

"""What every handler works with: the parts of the service, and the door that requests come through."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from itertools import product

from aiohttp import web

from ..config import ServiceProcess
from ..engine.protocol import Priority
from .admission import Conditions, Window
from .auth import Keys
from .caller import caller_of
from .door import Door
from .entry import Order, Receiver
from .errors import (
    EngineLoading,
    EngineUnavailable,
    ModelNotFound,
    Overloaded,
    QueueFull,
    QueueTimeout,
    ShuttingDown,
    TokensSpent,
    TooManyAtOnce,
)
from .fairness import Caller
from .ledger import Ledger
from .metrics import Metrics
from .observer import Resume
from .text_worker import TextWorker
from .traces import Traces
from .vitals import Vitals

DEFAULT_MODEL = "default"
"""Always the name of the configured model, whatever it is."""

GENERATING = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
FAILURES = ("500", "503", "529")
REFUSALS = (
    *(QueueFull, TooManyAtOnce, TokensSpent, QueueTimeout),
    *(EngineLoading, EngineUnavailable, Overloaded, ShuttingDown),
)


class Context:
    """The service's parts, joined."""

    def __init__(
        self, settings: ServiceProcess, ledger: Ledger, text: TextWorker, metrics: Metrics, traces: Traces
    ) -> None:
        self.server = settings.server
        self.keys = None if settings.server.api_keys is None else Keys.read(settings.server.api_keys)
        self.admin_token_sha256 = settings.admin_token_sha256
        self.model_name = settings.engine.model_name
        self.ledger = ledger
        self.text = text
        self.metrics = metrics
        self.vitals = Vitals()
        self.traces = traces
        self.telemetry = settings.telemetry
        self.created = int(time.time())
        self.door = Door(
            settings.server,
            ledger,
            text_ready=lambda: text.ready,
            on_refusal=lambda code: metrics.requests_shed.labels(code).inc(),
        )
        self._configured_context_tokens = settings.engine.context_tokens
        count_from_zero(metrics, self.model_name)

    def conditions(self) -> Conditions:
        return self.door.conditions()

    def require_model(self, name: str) -> None:
        """Raises `ModelNotFound`."""
        if name not in (self.model_name, DEFAULT_MODEL):
            known = f"`{self.model_name}`, also called `{DEFAULT_MODEL}`"
            raise ModelNotFound(f"no model `{name}` here; this server has {known}", param="model")

    @contextlib.contextmanager
    def admitted(self, request: web.Request, wanted: Priority) -> Iterator[Caller]:
        """Be in flight; `wanted` is what the body says of its priority. Raises the `ServiceError` that says why not."""
        caller = caller_of(request, wanted)
        with self.door.admitted(caller):
            yield caller

    def submit(self, order: Order, receiver: Receiver) -> None:
        """Hand an admitted request to the ledger. Raises the `ServiceError` that says why it is not taken after all."""
        self.door.submit(order, receiver)

    @property
    def window(self) -> Window:
        """What the engine that is, or was, there can take; only for a request that was admitted."""
        limits = self.ledger.snapshot().limits
        assert limits is not None, "admitted, so an engine has been there"
        return Window.of(limits, self._configured_context_tokens)


def count_from_zero(metrics: Metrics, model: str) -> None:
    """Show what seldom happens as 0 before it does: Prometheus sees no increase in a series that begins with 1."""
    for endpoint, code in product(GENERATING, FAILURES):
        metrics.requests.labels(model, endpoint, code)
    for refusal in REFUSALS:
        metrics.requests_shed.labels(refusal.code)
    for outcome in Resume:
        metrics.request_resumes.labels(outcome.value)


CONTEXT = web.AppKey("context", Context)

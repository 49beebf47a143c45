"""One request in flight: what it asks of an engine, what it has emitted, and who its events are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ..engine.protocol import FinishReason, Sampling, Submit
from .errors import ServiceError


class State(StrEnum):
    """Where a request is: handed to the engine, being computed, or waiting for an engine."""

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"


class Receiver(Protocol):
    """Who a request's events are for. Must not block."""

    def started(self, cached_tokens: int) -> None:
        """The engine has begun with it."""

    def tokens(self, ids: Sequence[int]) -> bool:
        """New output ids; False when they are too many to hold."""

    def finished(self, reason: FinishReason) -> None:
        """No more ids follow."""

    def failed(self, error: ServiceError) -> None:
        """It ended without its answer being complete."""


@dataclass(frozen=True)
class Order:
    """What a request asks of an engine; `arrived_at` is when its client sent it, on the ledger's clock."""

    id: str
    prompt: list[int]
    sampling: Sampling
    max_tokens: int
    stop_ids: list[int]
    arrived_at: float


@dataclass
class Entry:
    """One request in flight. `suspended_at` is set while it waits for an engine; `lost_at` is set from its engine's
    death until its next token."""

    order: Order
    receiver: Receiver
    state: State
    emitted: list[int] = field(default_factory=list)
    cached_tokens: int = 0
    first_token_at: float | None = None
    last_token_at: float = 0.0
    suspended_at: float | None = None
    lost_at: float | None = None

    def submit(self) -> Submit:
        order = self.order
        return Submit(
            id=order.id,
            prompt=order.prompt,
            emitted=list(self.emitted),
            sampling=order.sampling,
            max_tokens=order.max_tokens,
            stop_ids=order.stop_ids,
        )

    def time_per_output_token(self) -> float | None:
        """Seconds, or None when there are fewer than two tokens."""
        if self.first_token_at is None or len(self.emitted) < 2:
            return None
        return (self.last_token_at - self.first_token_at) / (len(self.emitted) - 1)

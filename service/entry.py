"""One request in flight: what it asks of an engine, what it has emitted, and who its events are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ..engine.protocol import FinishReason, Grammar, MissReason, Sampling, Submit, Tier, TokenLogprob
from .errors import ServiceError
from .fairness import Caller
from .trail import Trail


class State(StrEnum):
    """Where a request is: waiting for its first turn, handed to the engine, being computed, taken back from one, or
    kept from it until its reader has caught up."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    PAUSED = "paused"


@dataclass(frozen=True)
class Prefix:
    """What of a prompt was cached: tokens, where they were, and why there were not more; see `protocol.Prefill`."""

    cached: int = 0
    total: int = 0
    tier: Tier | None = None
    miss: MissReason | None = None
    diverged_at: int | None = None
    from_disk: int = 0


class Receiver(Protocol):
    """Who a request's events are for. Must not block."""

    def started(self, prefix: Prefix) -> None:
        """The engine has begun with it."""

    def resumed(self) -> None:
        """Another engine goes on with it; `started` follows."""

    def tokens(self, ids: Sequence[int], logprobs: Sequence[TokenLogprob]) -> bool:
        """New output ids, with as many log probabilities or none; False when it holds so many that no more should
        come until they are read."""

    def finished(self, reason: FinishReason) -> None:
        """No more ids follow."""

    def failed(self, error: ServiceError) -> None:
        """It ended without its answer being complete."""


@dataclass(frozen=True)
class Order:
    """What a request asks of an engine; `arrived_at` is when its client sent it, on the ledger's clock. `trail` is
    where what happens to it is written down."""

    id: str
    prompt: list[int]
    sampling: Sampling
    max_tokens: int
    stop_ids: list[int]
    arrived_at: float
    caller: Caller
    grammar: Grammar | None = None
    trail: Trail = field(default_factory=Trail)


@dataclass
class Entry:
    """One request in flight. `waits_since` is set until an engine begins with it, and again from that engine's death
    until the next one begins; `lost_at` is set from an engine's death until its next token; `unread_since` is set while
    its reader has more than it should hold; `withdrawn` says that the engine was asked to let go of it meanwhile."""

    order: Order
    receiver: Receiver
    waits_since: float | None
    state: State = State.WAITING
    emitted: list[int] = field(default_factory=list)
    prefix: Prefix = Prefix()
    first_token_at: float | None = None
    last_token_at: float = 0.0
    lost_at: float | None = None
    unread_since: float | None = None
    withdrawn: bool = False

    @property
    def trail(self) -> Trail:
        return self.order.trail

    @property
    def in_engine(self) -> bool:
        return self.state is State.QUEUED or self.state is State.RUNNING

    @property
    def place(self) -> int:
        """How far its sequence (prompt, then output) is known, in tokens."""
        return len(self.order.prompt) + len(self.emitted)

    @property
    def complete(self) -> bool:
        """It has its last token, whether or not the engine had the time to say so."""
        return len(self.emitted) >= self.order.max_tokens

    def suspend(self, now: float) -> None:
        """It is in no engine, and waits for its turn in the next one or the same."""
        self.state = State.SUSPENDED
        self.withdrawn = False
        if self.waits_since is None:
            self.waits_since = now

    def fall_behind(self, now: float) -> bool:
        """Its reader has more than it should hold; returns whether the engine has yet to be asked to let go of it."""
        if self.unread_since is None:
            self.unread_since = now
        asked, self.withdrawn = self.withdrawn, True
        return not asked

    def let_go(self, now: float) -> None:
        """The engine has let go of it, and kept its KV for when it comes back."""
        self.withdrawn = False
        self.trail.lost(now)
        if self.unread_since is None:
            self.suspend(now)
        else:
            self.state = State.PAUSED

    def catch_up(self, now: float) -> bool:
        """Its reader has taken all that there was; returns whether it waits for its turn from now on."""
        if self.unread_since is None:
            return False
        self.unread_since = None
        self.last_token_at = now  # The time that it lay there is its reader's, not the engine's.
        if self.state is not State.PAUSED:
            return False
        self.suspend(now)
        return True

    def check_integrity(self) -> None:
        """Raise `AssertionError` when it contradicts itself."""
        assert len(self.emitted) <= self.order.max_tokens, "more tokens than asked for"
        assert (self.waits_since is None) == (self.state in {State.RUNNING, State.PAUSED})
        assert not self.withdrawn or self.state is State.RUNNING, "taken out of an engine that does not have it"
        assert self.state is not State.PAUSED or self.unread_since is not None, "paused for no reader"
        assert (self.first_token_at is None) == (not self.emitted)

    def submit(self) -> Submit:
        order = self.order
        return Submit(
            id=order.id,
            prompt=order.prompt,
            emitted=list(self.emitted),
            sampling=order.sampling,
            max_tokens=order.max_tokens,
            stop_ids=order.stop_ids,
            grammar=order.grammar,
            priority=order.caller.priority,
            use_prefix_cache=order.caller.use_prefix_cache,
        )

    def time_per_output_token(self) -> float | None:
        """Seconds, or None when there are fewer than two tokens."""
        if self.first_token_at is None or len(self.emitted) < 2:
            return None
        return (self.last_token_at - self.first_token_at) / (len(self.emitted) - 1)

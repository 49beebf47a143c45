"""What happened to one generation, and when: written down by the ledger, made into spans after its end (`spans`).

No token is written down, only what is rare, so that a trail costs next to nothing while tokens flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..engine.protocol import FinishReason, MissReason, Prefill, Tier, Timings

MAX_CHUNKS = 128
"""Pieces of a prompt that one attempt remembers; of more, every second is forgotten."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """`done` tokens were in the KV cache at that time."""

    at: float
    done: int


@dataclass(slots=True)
class Attempt:
    """One engine's try at it, from the handing over. Times are on the ledger's clock, None for what did not happen."""

    epoch: int
    handed_over_at: float
    emitted: int
    """Tokens that the client had by then."""
    chunks: list[Chunk] = field(default_factory=list)
    total: int = 0
    cached: int = 0
    from_disk: int = 0
    tier: Tier | None = None
    miss: MissReason | None = None
    first_token_at: float | None = None
    lost_at: float | None = None
    timings: Timings | None = None
    """The engine's own, if it lived to send them."""

    def prefilled(self, event: Prefill, now: float) -> None:
        """The engine has got so far with the prompt."""
        if self.first_token_at is None:
            self.total, self.cached, self.from_disk = event.total, event.cached, event.from_disk
            self.tier, self.miss = event.tier, event.miss
        if len(self.chunks) == MAX_CHUNKS:
            del self.chunks[1::2]
        self.chunks.append(Chunk(now, event.done))


@dataclass(slots=True)
class Trail:
    """One generation. `exemplar` is what its latencies are marked with, `names` what its log lines are."""

    exemplar: dict[str, str] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    began_at: float | None = None
    attempts: list[Attempt] = field(default_factory=list)
    emitted: int = 0
    ended_at: float | None = None
    finish: FinishReason | None = None
    error: str | None = None
    """Code of the error that ended it."""

    @property
    def attempt(self) -> Attempt | None:
        """The latest."""
        return self.attempts[-1] if self.attempts else None

    def handed_over(self, epoch: int, now: float) -> None:
        """To an engine."""
        self.attempts.append(Attempt(epoch, now, self.emitted))

    def taken_back(self) -> None:
        """The engine had no place for it after all: that was no attempt."""
        self.attempts.pop()

    def tokens(self, count: int, now: float) -> None:
        """New ones came."""
        self.emitted += count
        attempt = self.attempt
        if attempt is not None and attempt.first_token_at is None:
            attempt.first_token_at = now

    def lost(self, now: float) -> None:
        """With its engine, or taken out of it until its reader has caught up."""
        if self.attempts:
            self.attempts[-1].lost_at = now

"""The contract between the loop and whatever turns rows into tokens: MLX (`ragged`) or make-believe (`simulated`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .protocol import DraftMethod, Grammar, Limits, Memory, MissReason, Sampling, Tier, TokenLogprob
from .scheduler import Chunk


@dataclass(frozen=True, slots=True)
class RowSpec:
    """What a batch needs to know of a row: its sequence so far and how to go on.

    The n-th token (from 0) that this row draws has the output position `len(emitted) + n`, and is drawn with the key
    of (sampling.seed, position).
    """

    id: str
    prompt: list[int]
    emitted: list[int]
    sampling: Sampling
    grammar: Grammar | None = None
    use_prefix_cache: bool = True

    @property
    def sequence(self) -> list[int]:
        return self.prompt + self.emitted


@dataclass(frozen=True, slots=True)
class Found:
    """What a row begins with: `tokens` of its sequence, the slower tier they came from, and why there are no more.

    `from_disk` of the tokens came from disk.
    """

    tokens: int = 0
    tier: Tier | None = None
    miss: MissReason | None = None
    diverged_at: int | None = None
    from_disk: int = 0


NOTHING_FOUND = Found()


@dataclass(frozen=True, slots=True)
class Sampled:
    """New tokens of one row, in order: one, and after it those of an accepted draft. `logprobs` where asked for."""

    id: str
    tokens: list[int]
    logprobs: list[TokenLogprob] | None = None
    drafted: int = 0
    method: DraftMethod = DraftMethod.PROMPT_LOOKUP
    """Who drafted them."""
    failure: str | None = None
    """Why the row can go no further: its grammar can no longer be followed."""

    @property
    def accepted(self) -> int:
        """Draft tokens that were right."""
        return len(self.tokens) - 1


@dataclass(frozen=True, slots=True)
class TierSize:
    """KV that one tier of a prefix cache holds, and the blocks that left it because room was made."""

    nbytes: int
    evictions: int


class Batch(Protocol):
    """Rows with state (KV) and the step that advances them. Used from one thread only."""

    @property
    def limits(self) -> Limits:
        """What this batch can take."""

    @property
    def model(self) -> str:
        """Name of the model, for people."""

    @property
    def vocabulary(self) -> int:
        """Token ids are below this."""

    def refusal(self, grammar: Grammar) -> str | None:
        """Why this grammar cannot be followed here, or None when it can."""

    def expect(self, spec: RowSpec) -> None:
        """A row will be added later, unless it is removed before."""

    def should_wait(self, row_id: str) -> bool:
        """Whether an expected row had better be added later: another is computing what it could read then."""

    def add(self, row_id: str) -> Found:
        """Make room for an expected row; nothing is computed yet. Says what of its sequence is known already."""

    def has_room_for(self, row_id: str) -> bool:
        """Whether the KV that an expected row will surely need fits beside what the others will surely need."""

    def has_room_after(self, chunks: Sequence[Chunk]) -> bool:
        """Whether all KV fits once these chunks are computed; what only the cache keeps gives way."""

    def preempt(self, row_id: str) -> int:
        """Free a row's KV and expect it again, with all that it drew; nothing may be under way.

        Returns how many tokens its sequence has now.
        """

    @property
    def needs_tokens(self) -> bool:
        """Whether the next step can only be launched once every token so far has been collected."""

    def launch(self, chunks: Sequence[Chunk]) -> None:
        """Begin a step; it is under way until it is collected."""

    def collect(self, leave: int) -> list[Sampled]:
        """Wait for the oldest steps under way until only `leave` are; the tokens they drew, for rows still here."""

    def remove(self, row_id: str) -> None:
        """Free a row's state once it is settled, or forget an expected one. Only between two steps."""

    def settle(self) -> None:
        """Keep what was computed and free what has ended, which may wait until tokens have been handed out.

        Between two steps, before anything is asked about room or about what is kept.
        """

    def reclaim(self, level: int) -> int:
        """Do what `protocol.Reclaim` says of KV and the pool; returns the bytes freed. Nothing may be under way."""

    def allow_drafts(self, allowed: bool) -> None:
        """Whether rows may draft, from the next step on."""

    def check_integrity(self) -> None:
        """Raise `AssertionError` when what is kept contradicts itself. Called when there are no rows."""

    def close(self) -> None:
        """The last call: write what would be lost."""

    def memory(self) -> Memory:
        """Bytes by kind, read now."""

    def tiers(self) -> dict[Tier, TierSize]:
        """What the prefix cache holds now, of each tier that there is."""

"""The contract between the loop and whatever turns rows into tokens: MLX (`ragged`) or make-believe (`simulated`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .protocol import Grammar, Limits, Memory, Sampling, TokenLogprob
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

    @property
    def sequence(self) -> list[int]:
        return self.prompt + self.emitted


@dataclass(frozen=True, slots=True)
class Sampled:
    """New tokens of one row, in order: one, and after it those of an accepted draft. `logprobs` where asked for."""

    id: str
    tokens: list[int]
    logprobs: list[TokenLogprob] | None = None
    drafted: int = 0


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

    def add(self, spec: RowSpec) -> None:
        """Make room for a row; nothing is computed yet."""

    @property
    def needs_tokens(self) -> bool:
        """Whether the next step can only be launched once every token so far has been collected."""

    def launch(self, chunks: Sequence[Chunk]) -> None:
        """Begin a step; it is under way until it is collected."""

    def collect(self, leave: int) -> list[Sampled]:
        """Wait for the oldest steps under way until only `leave` are; the tokens they drew, for rows still here."""

    def remove(self, row_id: str) -> None:
        """Free a row's state. Only between two steps."""

    def memory(self) -> Memory:
        """Bytes by kind, read now."""

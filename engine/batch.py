"""The contract between the loop and whatever turns rows into tokens: MLX (`ragged`) or make-believe (`simulated`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .protocol import Limits, Memory, Sampling
from .scheduler import Chunk


@dataclass(frozen=True, slots=True)
class RowSpec:
    """What a batch needs to know of a row: its sequence so far and how to go on.

    `sequence` is prompt plus emitted ids; the token sampled n-th (from 0) by this row has the output position
    `first_position + n` and is drawn with the key of (sampling.seed, position).
    """

    id: str
    sequence: list[int]
    sampling: Sampling
    first_position: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """One new token of one row."""

    id: str
    token: int


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

    def add(self, spec: RowSpec) -> None:
        """Make room for a row; nothing is computed yet."""

    def step(self, chunks: Sequence[Chunk]) -> list[Sampled]:
        """Launch one step, then wait for the step launched before it and return the tokens it drew.

        With no chunks, only collects. A row that was removed since its launch yields nothing.
        """

    def remove(self, row_id: str) -> None:
        """Free a row's state. Only between two steps."""

    def memory(self) -> Memory:
        """Bytes by kind, read now."""

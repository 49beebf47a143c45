"""The rows of the batch on MLX and a step of them: what each holds, and the ids that go into the forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from .adjustments import History
from .batch import RowSpec
from .grammar import Matcher
from .prefix_cache import Lease
from .row_state import RowState
from .sampling import Draws
from .scheduler import Chunk
from .speculative import Draft, Verdict


@dataclass(frozen=True, slots=True)
class ExpectedRow:
    """A row that waits; the lease names the blocks of its sequence."""

    spec: RowSpec
    tokens: list[int]
    lease: Lease | None


@dataclass(slots=True, eq=False)
class BatchRow:
    """A row that runs."""

    spec: RowSpec
    state: RowState
    tokens: list[int]
    """The sequence and every token drawn and read since."""
    lease: Lease | None
    history: History | None
    matcher: Matcher | None
    draws_under_way: int = 0
    removed: bool = False

    @property
    def position(self) -> int:
        """Output position of the token that the next launch draws."""
        return len(self.tokens) - len(self.spec.prompt) + self.draws_under_way

    @property
    def known(self) -> int:
        """Tokens that it came with."""
        return len(self.spec.prompt) + len(self.spec.emitted)

    @property
    def shared(self) -> int:
        """Of its KV's tokens, those in memory that the prefix cache counts."""
        return self.state.shared

    @property
    def must_know_its_tokens(self) -> bool:
        return self.history is not None or self.matcher is not None


@dataclass(frozen=True, slots=True)
class Drawing:
    """A row that draws in a step: at the end of what is known, and after each token of its draft."""

    row: BatchRow
    draft: Draft

    @property
    def positions(self) -> int:
        """How many tokens are drawn."""
        return 1 + len(self.draft.tokens)

    def histories(self) -> Iterator[History | None]:
        """What each of its positions stands on."""
        history = self.row.history
        for i in range(self.positions):
            yield history if history is None or i == 0 else history.after(self.draft.tokens[:i])

    def verdict(self, accepted: int) -> Verdict:
        """What came of its draft."""
        return Verdict(self.row.spec.id, len(self.draft.tokens), accepted, self.draft.method)


@dataclass(frozen=True, slots=True)
class Launch:
    """A step under way. `draws` holds the positions of each drawing, in order."""

    drawings: list[Drawing]
    draws: Draws
    computed: list[mx.array]
    """KV that must exist when the step is over, of pieces that draw nothing."""
    decodes_only: bool


def input_ids(
    rows: Sequence[BatchRow], chunks: Sequence[Chunk], drafts: Sequence[Draft], newest: Launch | None
) -> mx.array:
    """The chunks' tokens and drafts one after the other, flat. Those of `newest`, the step under way, are lazy."""
    if newest is not None and list(rows) == [drawing.row for drawing in newest.drawings]:
        return newest.draws.tokens
    lazy = {drawing.row: i for i, drawing in enumerate(newest.drawings)} if newest is not None else {}
    parts: list[mx.array] = []
    known: list[int] = []
    for row, chunk, draft in zip(rows, chunks, drafts, strict=True):
        if row in lazy and newest is not None:
            parts.extend(_flushed(known))
            parts.append(newest.draws.tokens[lazy[row]][None])
        else:
            known.extend(row.tokens[chunk.start : chunk.start + chunk.count])
        known.extend(draft.tokens)
    parts.extend(_flushed(known))
    return mx.concatenate(parts)


def _flushed(known: list[int]) -> list[mx.array]:
    """The ids collected so far as at most one array; `known` is empty afterwards."""
    if not known:
        return []
    array = mx.array(known, dtype=mx.uint32)
    known.clear()
    return [array]

"""Rows on MLX: prefill and decode of a ragged batch, one decode step launched ahead of the one that is read.

While the device works on step n + 1, the tokens of step n are read and handed out and the graph of step n + 2 is
built. A step's input tokens are therefore often not known yet when it is launched: they are the lazy output of the
step before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from . import memory
from .batch import RowSpec, Sampled
from .protocol import Limits, Memory
from .ragged import Mode, Model, RowState, Span, forward, new_row
from .sampling import BatchSampler
from .scheduler import Chunk


@dataclass(slots=True, eq=False)
class _Row:
    spec: RowSpec
    state: RowState
    launched: int = 0
    removed: bool = False

    @property
    def position(self) -> int:
        """Output position of the token that the next launch draws."""
        return self.spec.first_position + self.launched


@dataclass(frozen=True, slots=True)
class _Launch:
    """A decode step under way: `tokens[i]` belongs to `rows[i]`."""

    rows: list[_Row]
    tokens: mx.array


_NOTHING = _Launch([], mx.array([], dtype=mx.uint32))


class MlxBatch:
    """Implements `batch.Batch`. Every method runs on the step thread."""

    def __init__(self, model: Model, mode: Mode, *, name: str, limits: Limits, vocabulary: int, weights: int) -> None:
        self._model = model
        self._mode = mode
        self._name = name
        self._limits = limits
        self._vocabulary = vocabulary
        self._weights = weights
        self._rows: dict[str, _Row] = {}
        self._launch = _NOTHING
        self._sampler = BatchSampler([])
        self._sampler_rows: list[_Row] = []

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def model(self) -> str:
        return self._name

    @property
    def vocabulary(self) -> int:
        return self._vocabulary

    def add(self, spec: RowSpec) -> None:
        self._rows[spec.id] = _Row(spec, new_row(self._model))

    def prefill(self, chunks: Sequence[Chunk]) -> None:
        spans = []
        for chunk in chunks:
            row = self._rows[chunk.id]
            ids = mx.array(row.spec.sequence[chunk.start : chunk.start + chunk.count])
            spans.append(Span(row.state, ids, chunk.count))
        forward(self._model, self._mode, spans)
        # Only the caches are evaluated: nobody asked for these logits.
        mx.eval([cache.state for span in spans for cache in span.row.caches])

    def decode(self, ids: Sequence[str]) -> list[Sampled]:
        previous = self._launch
        self._launch = self._launch_step([self._rows[row_id] for row_id in ids], previous) if ids else _NOTHING
        if not previous.rows:
            return []
        tokens: list[int] = previous.tokens.tolist()  # type: ignore[assignment]  # one-dimensional, so a flat list
        return [
            Sampled(row.spec.id, token) for row, token in zip(previous.rows, tokens, strict=True) if not row.removed
        ]

    def remove(self, row_id: str) -> None:
        self._rows.pop(row_id).removed = True

    def memory(self) -> Memory:
        kv = sum(cache.nbytes for row in self._rows.values() for cache in row.state.caches)
        return memory.read(self._weights, kv)

    def _launch_step(self, wanted: list[_Row], previous: _Launch) -> _Launch:
        rows, inputs = _inputs(wanted, previous)
        if rows != self._sampler_rows:
            self._sampler_rows = rows
            self._sampler = BatchSampler([row.spec.sampling for row in rows])
        pieces = inputs.split(len(rows))
        spans = [Span(row.state, piece, 1) for row, piece in zip(rows, pieces, strict=True)]
        tokens = self._sampler(forward(self._model, self._mode, spans), [row.position for row in rows])
        mx.async_eval(tokens)  # type: ignore[no-untyped-call]
        for row in rows:
            row.launched += 1
        return _Launch(rows, tokens)


def _inputs(wanted: list[_Row], previous: _Launch) -> tuple[list[_Row], mx.array]:
    """The rows of the next step, those of the previous one first, and their input ids, [rows].

    A row that was in the previous step goes on with that step's token, which may not be computed yet; a row that
    joins begins with the last id of its sequence.
    """
    if wanted == previous.rows:
        return wanted, previous.tokens
    index = {row: i for i, row in enumerate(previous.rows)}
    staying = [row for row in wanted if row in index]
    joining = [row for row in wanted if row not in index]
    parts = []
    if staying:
        parts.append(previous.tokens[mx.array([index[row] for row in staying])])
    if joining:
        parts.append(mx.array([row.spec.sequence[-1] for row in joining], dtype=mx.uint32))
    return staying + joining, mx.concatenate(parts)

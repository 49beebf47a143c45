"""Rows on MLX: one ragged forward pass a step, launched ahead of reading the one before it.

While the device works on step n + 1, the tokens of step n are read and handed out and the graph of step n + 2 is
built. A step's input tokens are therefore often not known yet when it is launched: they are the lazy output of the
step before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from . import memory
from .batch import RowSpec, Sampled
from .protocol import Limits, Memory
from .ragged import RaggedModel, RowState
from .sampling import BatchSampler
from .scheduler import Chunk


@dataclass(slots=True, eq=False)
class _Row:
    spec: RowSpec
    state: RowState
    last_token: int
    """The newest token that was read: the input of the next chunk, unless a launched step has drawn a newer one."""
    drawn: int = 0
    removed: bool = False

    @property
    def position(self) -> int:
        """Output position of the token that the next launch draws."""
        return self.spec.first_position + self.drawn


@dataclass(frozen=True, slots=True)
class _Launch:
    """A step under way: `tokens[i]` was drawn by `rows[i]`; `computed` is all that must exist when it is over."""

    rows: list[_Row]
    tokens: mx.array
    computed: list[mx.array]


_NOTHING = _Launch([], mx.array([], dtype=mx.uint32), [])


class MlxBatch:
    """Implements `batch.Batch`. Every method runs on the step thread."""

    def __init__(self, model: RaggedModel, *, name: str, limits: Limits, vocabulary: int, weights: int) -> None:
        self._model = model
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
        self._rows[spec.id] = _Row(spec, self._model.new_row(), last_token=spec.sequence[-1])

    def step(self, chunks: Sequence[Chunk]) -> list[Sampled]:
        previous, self._launch = self._launch, self._launch_step(chunks) if chunks else _NOTHING
        mx.eval(previous.computed)
        tokens: list[int] = previous.tokens.tolist()  # type: ignore[assignment]  # one-dimensional, so a flat list
        sampled = []
        for row, token in zip(previous.rows, tokens, strict=True):
            row.last_token = token
            if not row.removed:
                sampled.append(Sampled(row.spec.id, token))
        return sampled

    def remove(self, row_id: str) -> None:
        self._rows.pop(row_id).removed = True

    def memory(self) -> Memory:
        kv = sum(cache.nbytes for row in self._rows.values() for cache in row.state.caches)
        return memory.read(self._weights, kv)

    def _launch_step(self, chunks: Sequence[Chunk]) -> _Launch:
        rows = [self._rows[chunk.id] for chunk in chunks]
        counts = [chunk.count for chunk in chunks]
        wanted = [i for i, chunk in enumerate(chunks) if chunk.draws]
        logits = self._model.forward([row.state for row in rows], counts, self._input_ids(rows, chunks), wanted)
        drawing = [rows[i] for i in wanted]
        tokens = self._draw(drawing, logits)
        # A piece that draws nothing is pulled in by its caches; the others are pulled in by their tokens.
        quiet = [row for row, chunk in zip(rows, chunks, strict=True) if not chunk.draws]
        computed = [array for row in quiet for array in _arrays_of(row.state.caches)]
        mx.async_eval(tokens, computed)  # type: ignore[no-untyped-call]
        return _Launch(drawing, tokens, computed)

    def _draw(self, rows: list[_Row], logits: mx.array) -> mx.array:
        """[rows] token ids from [rows, vocabulary] logits."""
        if not rows:
            return _NOTHING.tokens
        if rows != self._sampler_rows:
            self._sampler_rows = rows
            self._sampler = BatchSampler([row.spec.sampling for row in rows])
        tokens = self._sampler(logits, [row.position for row in rows])
        for row in rows:
            row.drawn += 1
        return tokens

    def _input_ids(self, rows: list[_Row], chunks: Sequence[Chunk]) -> mx.array:
        """The chunks' tokens one after the other, flat. Those of the step under way are taken lazily."""
        previous = self._launch
        if rows == previous.rows:
            return previous.tokens
        under_way = {row: i for i, row in enumerate(previous.rows)}
        parts: list[mx.array] = []
        known: list[int] = []
        for row, chunk in zip(rows, chunks, strict=True):
            if row in under_way:
                parts.extend(_flushed(known))
                parts.append(previous.tokens[under_way[row]][None])
            elif chunk.start < len(row.spec.sequence):
                known.extend(row.spec.sequence[chunk.start : chunk.start + chunk.count])
            else:
                known.append(row.last_token)
        parts.extend(_flushed(known))
        return mx.concatenate(parts)


def _flushed(known: list[int]) -> list[mx.array]:
    """The ids collected so far as at most one array; `known` is empty afterwards."""
    if not known:
        return []
    array = mx.array(known, dtype=mx.uint32)
    known.clear()
    return [array]


def _arrays_of(caches: list[Any]) -> list[mx.array]:
    leaves = dict(tree_flatten([cache.state for cache in caches], destination={}))
    return [leaf for leaf in leaves.values() if isinstance(leaf, mx.array)]

"""One forward pass for rows of different lengths, without padding a row to a stranger's length.

Left-padded batches make every row pay for the longest. Here the linear layers see all new tokens of all rows at once
([tokens, 1, hidden], each token its own batch entry with its own rotary offset), be they a piece of a prompt or the
next token of a stream, and only attention goes row by row (`ragged_attention`).

Not every model allows this, so `RaggedModel.probe` compares each way of batching with row-by-row logits when a model
is loaded, and takes the fastest one that is right:

- PACKED:  rows of any token counts in one pass (attention-only models);
- GROUPED: single-token rows in one pass, longer pieces alone (models with recurrent state);
- ROWWISE: each row alone (models that attend in ways we cannot see).
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Any

import mlx.core as mx
import structlog
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from .ragged_attention import Prefix, PrefixedKV, RaggedKV

log = structlog.get_logger(__name__)

_ATTENTION_CACHES = (KVCache, RotatingKVCache, QuantizedKVCache, ChunkedKVCache)


class Mode(Enum):
    """How many rows share a forward pass; see the module's docstring."""

    PACKED = "packed"
    GROUPED = "grouped"
    ROWWISE = "rowwise"


@dataclass(slots=True, eq=False)
class RowState:
    """What a model remembers of one row: a cache a layer, holding `length` tokens."""

    caches: list[Any]
    length: int = 0


class _FinalNorm(Module):
    """A model's last norm, which drops the tokens whose logits nobody wants before the output layer sees them."""

    def __init__(self, norm: Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._norm = norm
        self._keep: mx.array | None = None

    @contextlib.contextmanager
    def keeping(self, tokens: mx.array | None) -> Iterator[None]:
        """Inside the block only these tokens pass (None: all); a pass that raises leaves nothing narrowed."""
        self._keep = tokens
        try:
            yield
        finally:
            self._keep = None

    def __call__(self, hidden: mx.array) -> mx.array:
        normed: mx.array = self._norm(hidden if self._keep is None else hidden[self._keep])
        return normed


class RaggedModel:
    """An mlx-lm model and how its rows may share a pass."""

    def __init__(self, model: Any, mode: Mode) -> None:
        self._model = model
        self.mode = mode
        self._final_norm = _wrap_final_norm(model) if mode is Mode.PACKED else None

    @classmethod
    def probe(cls, model: Any) -> RaggedModel:
        """The fastest mode in which this model's logits are those of its rows alone.

        Two short rows go through it; this is also the model's first compilation. Ids 0 to 7 must be tokens.
        """
        alone = cls(model, Mode.ROWWISE)
        attends_only = all(isinstance(cache, _ATTENTION_CACHES) for cache in alone.new_row().caches)
        candidate = cls(model, Mode.PACKED if attends_only else Mode.GROUPED)
        expected = _probe_logits(alone)
        try:
            right = bool(mx.all(mx.abs(_probe_logits(candidate) - expected) < 0.1 * mx.std(expected)))
        except Exception as error:
            # Whatever a model raises when it meets a ragged batch, it does not take one.
            log.info("ragged_batch_refused", mode=candidate.mode.value, error=repr(error))
            right = False
        return candidate if right else alone

    @property
    def shares_prefixes(self) -> bool:
        """Whether rows can read each other's KV: plain attention in every layer, nothing recurrent or sliding."""
        return self.mode is Mode.PACKED and all(type(cache) is KVCache for cache in make_prompt_cache(self._model))

    def new_row(self, prefixes: Sequence[Prefix] = ()) -> RowState:
        """A row that begins with these prefixes, one after the other (only where `shares_prefixes`)."""
        if not prefixes:
            return RowState(make_prompt_cache(self._model))
        by_layer = zip(*(prefix.layers for prefix in prefixes), strict=True)
        return RowState([PrefixedKV(parts) for parts in by_layer], sum(prefix.tokens for prefix in prefixes))

    def continued(self, row: RowState, prefixes: Sequence[Prefix], moved: int) -> list[Any]:
        """The row's caches with the first `moved` tokens of its tail left to the last of `prefixes`."""
        by_layer = zip(*(prefix.layers for prefix in prefixes), strict=True)
        caches = []
        for parts, old in zip(by_layer, row.caches, strict=True):
            new = PrefixedKV(parts)
            if old.offset > moved:
                new.update_and_fetch(old.keys[..., moved : old.offset, :], old.values[..., moved : old.offset, :])
            caches.append(new)
        return caches

    def forward(
        self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]
    ) -> mx.array:
        """Append `counts[i]` of `ids` (flat, [sum(counts)]) to row i, for all rows; lazily.

        Returns the logits after each id whose index is in `wanted` (ascending), [wanted, vocabulary].
        """
        if self.mode is Mode.PACKED:
            logits = self._packed(rows, counts, ids, wanted)
        else:
            logits = self._separate(rows, counts, ids, wanted)
        for row, count in zip(rows, counts, strict=True):
            row.length += count
        return logits

    @property
    def trims(self) -> bool:
        """Whether tokens can be taken back: attention over everything, nothing recurrent or sliding."""
        trimmable = (KVCache, QuantizedKVCache)
        return all(isinstance(cache, trimmable) for cache in make_prompt_cache(self._model))

    def trim(self, row: RowState, count: int) -> None:
        """Take back the last `count` tokens of a row (only where `trims`)."""
        for cache in row.caches:
            cache.trim(count)
        row.length -= count

    def _packed(
        self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]
    ) -> mx.array:
        offset = mx.array([row.length + i for row, count in zip(rows, counts, strict=True) for i in range(count)])
        layers = [RaggedKV(caches, counts, offset) for caches in zip(*(row.caches for row in rows), strict=True)]
        keep = mx.array(list(wanted), dtype=mx.int32) if len(wanted) < ids.size else None
        if self._final_norm is None:
            logits: mx.array = self._model(ids[:, None], cache=layers)
            return logits[:, -1] if keep is None else logits[keep, -1]
        with self._final_norm.keeping(keep):
            logits = self._model(ids[:, None], cache=layers)
        return logits[:, -1]

    def _separate(
        self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]
    ) -> mx.array:
        """Single-token rows as a group where the mode has groups; every other row by itself."""
        ends = list(accumulate(counts))
        pieces = ids.split(tuple(ends[:-1]))
        group = [i for i, row in enumerate(rows) if counts[i] == 1 and row.length] if self.mode is Mode.GROUPED else []
        logits: dict[int, mx.array] = {}
        if len(group) > 1:
            together = self._grouped([rows[i] for i in group], mx.concatenate([pieces[i] for i in group]))
            logits = dict(zip(group, together.split(len(group)), strict=True))
        for i, row in enumerate(rows):
            if i not in logits:
                logits[i] = self._model(pieces[i][None], cache=row.caches)[0]
        if not wanted:
            return mx.zeros((0, 0))
        row_of = [bisect_right(ends, index) for index in wanted]
        places = [counts[row] - (ends[row] - index) for row, index in zip(row_of, wanted, strict=True)]
        return mx.stack([logits[row][place] for row, place in zip(row_of, places, strict=True)])

    def _grouped(self, rows: Sequence[RowState], ids: mx.array) -> mx.array:
        offset = mx.array([row.length for row in rows])
        layers = [_gather(caches, offset) for caches in zip(*(row.caches for row in rows), strict=True)]
        logits: mx.array = self._model(ids[:, None], cache=layers)[:, -1]
        for index, row in enumerate(rows):
            row.caches = [_scatter(layer, index) for layer in layers]
        return logits


def _wrap_final_norm(model: Any) -> _FinalNorm | None:
    """Found where nearly all of mlx-lm's models have it; others pay for the logits of every token."""
    inner = getattr(getattr(model, "language_model", model), "model", None)
    norm = getattr(inner, "norm", None)
    if isinstance(norm, _FinalNorm):
        return norm
    if inner is None or not isinstance(norm, Module):
        return None
    inner.norm = wrapped = _FinalNorm(norm)
    return wrapped


def _gather(caches: Sequence[Any], offset: mx.array) -> Any:
    """One layer's caches of several rows as one: recurrent state stacked, attention ragged."""
    first = caches[0]
    if isinstance(first, CacheList):
        return CacheList(*(_gather(parts, offset) for parts in zip(*(cache.caches for cache in caches), strict=True)))
    if isinstance(first, ArraysCache):
        return ArraysCache.merge(caches)
    return RaggedKV(caches, [1] * len(caches), offset)


def _scatter(layer: Any, index: int) -> Any:
    """Row `index` of what `_gather` made."""
    if isinstance(layer, CacheList):
        return CacheList(*(_scatter(part, index) for part in layer.caches))
    return layer.rows[index] if isinstance(layer, RaggedKV) else layer.extract(index)


def _probe_logits(model: RaggedModel) -> mx.array:
    """Logits of two rows after steps of unequal pieces and a step of single tokens, [6, vocabulary]."""
    rows = [model.new_row(), model.new_row()]
    steps = [
        model.forward(rows, [5, 3], mx.array([1, 2, 3, 4, 5, 6, 7, 1]), wanted=[4, 5, 7]),
        model.forward(rows, [2, 1], mx.array([2, 3, 5]), wanted=[2]),
        model.forward(rows, [1, 1], mx.array([4, 1]), wanted=[0, 1]),
    ]
    return mx.concatenate(steps).astype(mx.float32)

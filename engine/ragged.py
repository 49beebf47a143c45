"""One forward pass for rows of different lengths, without padding a row to a stranger's length.

Left-padded batches make every row pay for the longest. Here the linear layers see all new tokens of all rows at once
([tokens, 1, hidden], each token its own batch entry with its own rotary offset), be they a piece of a prompt or the
next token of a stream, and only attention goes row by row, each over its own KV. Attention reaches us because
mlx-lm's models call `base.scaled_dot_product_attention` with their cache; `hook_attention` puts ours there before a
model is imported, and ours differs only for `RaggedKV`.

Not every model allows this, so `RaggedModel.probe` compares each way of batching with row-by-row logits when a model
is loaded, and takes the fastest one that is right:

- PACKED:  rows of any token counts in one pass (attention-only models);
- GROUPED: single-token rows in one pass, longer pieces alone (models with recurrent state);
- ROWWISE: each row alone (models that attend in ways we cannot see).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import Any

import mlx.core as mx
import mlx_lm.models.base as mlx_lm_base
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

log = structlog.get_logger(__name__)

_ATTENTION_CACHES = (KVCache, RotatingKVCache, QuantizedKVCache, ChunkedKVCache)
_row_attention: Callable[..., mx.array] = mlx_lm_base.scaled_dot_product_attention


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


class RaggedMask(tuple[Any, ...]):
    """One attention mask a row, each as the row's own cache made it."""


@dataclass(slots=True)
class RaggedKV:
    """The KV caches of several rows in one layer, in the place of mlx-lm's cache for that layer.

    The batch axis holds the rows' new tokens one after the other: `counts[i]` entries belong to row i.
    """

    rows: Sequence[Any]
    counts: Sequence[int]
    offset: mx.array
    """Position of every new token in its own row, [tokens]."""
    _kv: list[tuple[Any, Any]] = field(default_factory=list)

    def make_mask(self, _: int, **options: Any) -> RaggedMask | None:
        """mlx-lm asks once for all layers of a kind, before their caches grow."""
        masks = RaggedMask(row.make_mask(count, **options) for row, count in zip(self.rows, self.counts, strict=True))
        return masks if any(mask is not None for mask in masks) else None

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append [tokens, kv_heads, 1, head_dim] to the rows; what is returned only reaches `attend`."""
        pieces = zip(self.rows, self._rows_of(keys), self._rows_of(values), strict=True)
        self._kv = [row.update_and_fetch(row_keys, row_values) for row, row_keys, row_values in pieces]
        return keys, values

    def attend(self, queries: mx.array, scale: float, mask: RaggedMask | None, sinks: mx.array | None) -> mx.array:
        """Each row over its own keys and values: [tokens, heads, 1, head_dim] to the same shape."""
        masks = mask if mask is not None else RaggedMask([None] * len(self.rows))
        outputs = [
            _row_attention(row_queries, keys, values, cache=row, scale=scale, mask=row_mask, sinks=sinks)
            for row, row_queries, (keys, values), row_mask in zip(
                self.rows, self._rows_of(queries), self._kv, masks, strict=True
            )
        ]
        self._kv = []
        return mx.concatenate([_across(output) for output in outputs])

    def _rows_of(self, packed: mx.array) -> list[mx.array]:
        """[tokens, heads, 1, dim] to a [1, heads, count, dim] for each row."""
        if len(self.rows) == packed.shape[0]:
            return packed.split(len(self.rows))
        ends, end = [], 0
        for count in self.counts[:-1]:
            end += count
            ends.append(end)
        return [_across(piece) for piece in packed.split(tuple(ends))]


def _across(piece: mx.array) -> mx.array:
    """Between [count, heads, 1, dim] and [1, heads, count, dim]; nothing to do for one token."""
    return piece if piece.shape[0] == piece.shape[2] == 1 else piece.transpose(2, 1, 0, 3)


def hook_attention() -> None:
    """Let `RaggedKV` answer for its rows wherever an mlx-lm model attends. Idempotent."""

    def attention(  # noqa: PLR0917 - mlx-lm's own signature
        queries: mx.array,
        keys: Any,
        values: Any,
        cache: Any,
        scale: float,
        mask: Any,
        sinks: mx.array | None = None,
    ) -> mx.array:
        if isinstance(cache, RaggedKV):
            return cache.attend(queries, scale, mask, sinks)
        return _row_attention(queries, keys, values, cache=cache, scale=scale, mask=mask, sinks=sinks)

    for name, module in list(sys.modules.items()):
        # `base` itself, and modules that were imported before us and hold their own reference to the function.
        if (
            name.startswith("mlx_lm.models.")
            and getattr(module, "scaled_dot_product_attention", None) is _row_attention
        ):
            module.__dict__["scaled_dot_product_attention"] = attention


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

    def new_row(self) -> RowState:
        """A row with nothing in it."""
        return RowState(make_prompt_cache(self._model))

    def forward(
        self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]
    ) -> mx.array:
        """Append `counts[i]` of `ids` (flat, [sum(counts)]) to row i, for all rows; lazily.

        Returns the logits of the last token of each row whose index is in `wanted`, [wanted, vocabulary].
        """
        if self.mode is Mode.PACKED and len(rows) > 1:
            logits = self._packed(rows, counts, ids, wanted)
        else:
            logits = self._separate(rows, counts, ids, wanted)
        for row, count in zip(rows, counts, strict=True):
            row.length += count
        return logits

    def _packed(
        self, rows: Sequence[RowState], counts: Sequence[int], ids: mx.array, wanted: Sequence[int]
    ) -> mx.array:
        offset = mx.array([row.length + i for row, count in zip(rows, counts, strict=True) for i in range(count)])
        layers = [RaggedKV(caches, counts, offset) for caches in zip(*(row.caches for row in rows), strict=True)]
        ends = list(accumulate(counts))
        keep = mx.array([ends[i] - 1 for i in wanted], dtype=mx.int32) if len(wanted) < ends[-1] else None
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
        pieces = ids.split(tuple(accumulate(counts))[:-1])
        group = [i for i, row in enumerate(rows) if counts[i] == 1 and row.length] if self.mode is Mode.GROUPED else []
        logits: dict[int, mx.array] = {}
        if len(group) > 1:
            together = self._grouped([rows[i] for i in group], mx.concatenate([pieces[i] for i in group]))
            logits = dict(zip(group, together.split(len(group)), strict=True))
        for i, row in enumerate(rows):
            if i not in logits:
                logits[i] = self._model(pieces[i][None], cache=row.caches)[:, -1]
        return mx.concatenate([logits[i] for i in wanted]) if wanted else mx.zeros((0, 0))

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
    """Logits of two rows after steps of unequal pieces and a step of single tokens, [5, vocabulary]."""
    rows = [model.new_row(), model.new_row()]
    steps = [
        model.forward(rows, [5, 3], mx.array([1, 2, 3, 4, 5, 6, 7, 1]), wanted=[0, 1]),
        model.forward(rows, [2, 1], mx.array([2, 3, 5]), wanted=[1]),
        model.forward(rows, [1, 1], mx.array([4, 1]), wanted=[0, 1]),
    ]
    return mx.concatenate(steps).astype(mx.float32)

"""One forward pass for rows of different lengths, without padding a row to a stranger's length.

Left-padded batches make every row pay for the longest. Here the linear layers see all new tokens of all rows at once
([tokens, 1, hidden], each token its own batch entry with its own rotary offset), and only attention goes row by row,
each over its own KV. Attention reaches us because mlx-lm's models call `base.scaled_dot_product_attention` with their
cache; `hook_attention` puts ours there before a model is imported, and ours differs only for `RaggedKV`.

Not every model allows this, so `probe_mode` compares each way of batching with row-by-row logits when a model is
loaded, and takes the fastest one that is right:

- PACKED:  rows of any token counts in one pass (attention-only models);
- GROUPED: single-token rows in one pass, longer pieces alone (models with recurrent state);
- ROWWISE: each row alone (models that attend in ways we cannot see).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import mlx.core as mx
import mlx_lm.models.base as mlx_lm_base
import structlog
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

Model = Callable[..., mx.array]
"""An mlx-lm model: ([rows, tokens] ids, cache=[one a layer]) -> [rows, tokens, vocabulary] logits."""

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


@dataclass(frozen=True, slots=True)
class Span:
    """New tokens of one row, [count] ids."""

    row: RowState
    ids: mx.array
    count: int


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


def new_row(model: Model) -> RowState:
    """A row with nothing in it."""
    return RowState(make_prompt_cache(model))


def forward(model: Model, mode: Mode, spans: Sequence[Span]) -> mx.array:
    """Run all spans; returns the logits of each span's last token, [spans, vocabulary], lazily.

    The rows' caches grow by their spans. Whoever does not evaluate the logits does not pay for them.
    """
    if mode is Mode.PACKED and len(spans) > 1:
        return _packed(model, spans)
    together = (
        [] if mode is not Mode.GROUPED else [i for i, span in enumerate(spans) if span.count == 1 and span.row.length]
    )
    if len(together) < 2:
        return mx.concatenate([_alone(model, span) for span in spans])
    logits = dict(zip(together, mx.split(_grouped(model, [spans[i] for i in together]), len(together)), strict=True))
    return mx.concatenate([logits[i] if i in logits else _alone(model, span) for i, span in enumerate(spans)])


def _alone(model: Model, span: Span) -> mx.array:
    logits = model(span.ids[None], cache=span.row.caches)
    span.row.length += span.count
    return logits[:, -1]


def _packed(model: Model, spans: Sequence[Span]) -> mx.array:
    rows, counts = [span.row for span in spans], [span.count for span in spans]
    positions = [row.length + i for row, count in zip(rows, counts, strict=True) for i in range(count)]
    offset = mx.array(positions)
    layers = [RaggedKV(caches, counts, offset) for caches in zip(*(row.caches for row in rows), strict=True)]
    logits = model(mx.concatenate([span.ids for span in spans])[:, None], cache=layers)[:, -1]
    for span in spans:
        span.row.length += span.count
    if len(positions) == len(spans):
        return logits
    return logits[mx.array(_last_of_each(counts))]


def _last_of_each(counts: Iterable[int]) -> list[int]:
    ends, end = [], 0
    for count in counts:
        end += count
        ends.append(end - 1)
    return ends


def _grouped(model: Model, spans: Sequence[Span]) -> mx.array:
    rows = [span.row for span in spans]
    offset = mx.array([row.length for row in rows])
    layers = [_gather(caches, offset) for caches in zip(*(row.caches for row in rows), strict=True)]
    logits = model(mx.concatenate([span.ids for span in spans])[:, None], cache=layers)[:, -1]
    for index, row in enumerate(rows):
        row.caches = [_scatter(layer, index) for layer in layers]
        row.length += 1
    return logits


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


def probe_mode(model: Model) -> Mode:
    """The fastest mode in which this model's logits are those of its rows alone.

    Two short rows go through it once; this is also the model's first compilation. Ids 0 to 7 must be tokens.
    """
    attends_only = all(isinstance(cache, _ATTENTION_CACHES) for cache in new_row(model).caches)
    candidate = Mode.PACKED if attends_only else Mode.GROUPED
    expected = _probe(model, Mode.ROWWISE)
    try:
        right = bool(mx.all(mx.abs(_probe(model, candidate) - expected) < 0.1 * mx.std(expected)))
    except Exception as error:
        # Whatever a model raises when it meets a ragged batch, it does not take one.
        log.info("ragged_batch_refused", mode=candidate.value, error=repr(error))
        right = False
    return candidate if right else Mode.ROWWISE


def _probe(model: Model, mode: Mode) -> mx.array:
    """Logits of two rows after a step of unequal pieces and a step of single tokens, [4, vocabulary]."""
    rows = [new_row(model), new_row(model)]
    for row, ids in zip(rows, ([1, 2, 3, 4, 5], [6, 7, 1]), strict=True):
        _alone(model, Span(row, mx.array(ids), len(ids)))
    steps = [
        forward(model, mode, [Span(row, mx.array(ids), len(ids)) for row, ids in zip(rows, pieces, strict=True)])
        for pieces in (([2, 3], [5]), ([4], [1]))
    ]
    return mx.concatenate(steps).astype(mx.float32)

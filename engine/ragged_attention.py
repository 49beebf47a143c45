"""Attention of rows of different lengths in one pass, each over its own KV, prefixes that rows share read once.

A row's keys and values lie in parts: any number of shared prefixes, immutable and possibly held by other rows too,
then a tail of its own. The scores of a shared part are computed for all its rows in one product, so eight agents on
one system prompt read its KV once a step and not eight times. One softmax over all parts of a row keeps the result
that of the row alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import mlx.core as mx
import mlx_lm.models.base as mlx_lm_base
import numpy as np
from mlx_lm.models.cache import KVCache, QuantizedKVCache

from .kv_arrays import KVArray, Quantization, SharedPart, tail_of

_row_attention: Callable[..., mx.array] = mlx_lm_base.scaled_dot_product_attention
_LOG2_E = math.log2(math.e)
_FEW_SCORES = 8192
"""Up to so many, one operation is faster than several."""
_MANY_SCORES = 131072
"""From so many on, it is worth it to wait for them."""


class PrefixedKV(KVCache):  # type: ignore[misc]  # mlx-lm is untyped
    """One row's KV in one layer: shared parts, then the tail that mlx-lm's own cache class keeps and grows.

    `offset` and `nbytes` are the tail's alone.
    """

    quantization = None

    def __init__(self, parts: Sequence[SharedPart]) -> None:
        super().__init__()
        self.parts = tuple(parts)


class QuantizedKV(QuantizedKVCache):  # type: ignore[misc]  # mlx-lm is untyped
    """The same with a quantized tail, and parts that are quantized alike."""

    def __init__(self, parts: Sequence[SharedPart], quantization: Quantization) -> None:
        super().__init__(quantization.group_size, quantization.bits)
        self.parts = tuple(parts)
        self.quantization = quantization

    @property
    def nbytes(self) -> int:
        # mlx-lm's own raises before the first token.
        return 0 if self.keys is None else int(super().nbytes)


PartedKV = PrefixedKV | QuantizedKV


def continued(old: Any, parts: Sequence[SharedPart], moved: int) -> PartedKV:
    """A row's cache with the first `moved` tokens of its tail left to the last of `parts`."""
    left = tail_of(old).each(lambda array: array.cut(moved, old.offset)) if old.offset > moved else None
    if isinstance(old, QuantizedKV):
        quantized = QuantizedKV(parts, old.quantization)
        if left is not None:
            quantized.keys, quantized.values = left.keys.copied().arrays, left.values.copied().arrays
            quantized.offset = old.offset - moved
        return quantized
    new = PrefixedKV(parts)
    if left is not None:
        new.update_and_fetch(left.keys.dense(), left.values.dense())
    return new


class RaggedMask(tuple[Any, ...]):
    """One attention mask a row: of which new token sees what of the tail, or as the row's own cache made it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Visible:
    """Which tokens of a row's tail each of its new tokens sees, [count, tail] booleans; made once for all layers."""

    tail: mx.array

    @classmethod
    def of(cls, before: int, count: int) -> _Visible | None:
        """For `count` new tokens behind a tail of `before`; one token sees all."""
        tail = before + count
        return cls(mx.arange(tail)[None] <= mx.arange(before, tail)[:, None]) if count > 1 else None


class PassKV:
    """What stands in the place of mlx-lm's cache of a layer while a batch passes, and attends for its rows."""

    def attend(self, queries: mx.array, scale: float, mask: RaggedMask | None, sinks: mx.array | None) -> mx.array:
        """Each row over its own keys and values: [tokens, heads, 1, head_dim] to the same shape."""
        raise NotImplementedError


@dataclass(slots=True)
class RaggedKV(PassKV):
    """The KV caches of several rows in one layer, in the place of mlx-lm's cache for that layer.

    The batch axis holds the rows' new tokens one after the other: `counts[i]` entries belong to row i.
    """

    rows: Sequence[Any]
    counts: Sequence[int]
    offset: mx.array | int
    """Position of every new token in its own row, [tokens]; of the first in a pass with one row."""
    _kv: list[tuple[Any, Any]] = field(default_factory=list)

    def make_mask(self, _: int, **options: Any) -> RaggedMask | None:
        """mlx-lm asks once for all layers of a kind, before their caches grow."""
        masks = RaggedMask(_mask(row, count, options) for row, count in zip(self.rows, self.counts, strict=True))
        return masks if any(mask is not None for mask in masks) else None

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append [tokens, kv_heads, 1, head_dim] to the rows; what is returned only reaches `attend`."""
        pieces = zip(self.rows, self._rows_of(keys), self._rows_of(values), strict=True)
        self._kv = [row.update_and_fetch(row_keys, row_values) for row, row_keys, row_values in pieces]
        return keys, values

    def attend(self, queries: mx.array, scale: float, mask: RaggedMask | None, sinks: mx.array | None) -> mx.array:
        masks = mask if mask is not None else RaggedMask([None] * len(self.rows))
        outputs: dict[int, mx.array] = {}
        prefixed: dict[int, _PrefixedRow] = {}
        scaled = self._rows_of(queries * scale)
        for i, (row, row_queries) in enumerate(zip(self.rows, self._rows_of(queries), strict=True)):
            keys, values = self._kv[i]
            if _is_ours(row, masks[i]):
                how = row.quantization if isinstance(row, PartedKV) else None
                tail = SharedPart(KVArray.of(keys, how), KVArray.of(values, how))
                prefixed[i] = _PrefixedRow.of(_parts_of(row), scaled[i], tail, masks[i])
            else:
                outputs[i] = _row_attention(
                    row_queries, keys, values, cache=row, scale=scale, mask=masks[i], sinks=sinks
                )
        if prefixed:
            outputs |= zip(prefixed, _attend_prefixed(list(prefixed.values()), sinks), strict=True)
        self._kv = []
        return self._packed([outputs[i] for i in range(len(self.rows))])

    def _rows_of(self, packed: mx.array) -> list[mx.array]:
        """[tokens, heads, 1, dim] to a [1, heads, count, dim] for each row."""
        if len(self.rows) == packed.shape[0]:
            return packed.split(len(self.rows))
        return [_across(piece) for piece in packed.split(tuple(accumulate(self.counts))[:-1])]

    def _packed(self, of_rows: list[mx.array]) -> mx.array:
        """The inverse of `_rows_of`."""
        return mx.concatenate([_across(piece) for piece in of_rows])


class SoleKV(RaggedKV):
    """One row's cache in a pass of its own, in which arrays are [1, heads, count, dim] as mlx-lm has them."""

    def __init__(self, row: PartedKV, count: int, length: int) -> None:
        super().__init__([row], [count], length)

    def _rows_of(self, packed: mx.array) -> list[mx.array]:
        return [packed]

    def _packed(self, of_rows: list[mx.array]) -> mx.array:
        return of_rows[0]


def whole_kv(cache: Any) -> tuple[mx.array, mx.array]:
    """All keys and values of a row that are not quantized, parts and tail, [1, kv_heads, length, head_dim]."""
    tail = tail_of(cache).each(lambda array: array.cut(0, cache.offset))
    pieces = [*_parts_of(cache), tail]
    if len(pieces) == 1:
        return tail.keys.dense(), tail.values.dense()
    keys = mx.concatenate([piece.keys.dense() for piece in pieces], axis=2)
    return keys, mx.concatenate([piece.values.dense() for piece in pieces], axis=2)


def _parts_of(row: Any) -> tuple[SharedPart, ...]:
    return row.parts if isinstance(row, PartedKV) else ()


def _mask(row: Any, count: int, options: dict[str, Any]) -> Any:
    mask = row.make_mask(count, **options)
    return _Visible.of(row.offset, count) if mask == "causal" and _multiplies_ourselves(row) else mask


def _is_ours(row: Any, mask: Any) -> bool:
    """Whether a row attends through our own products: over shared parts always, over its tail alone where it pays."""
    return _multiplies_ourselves(row) and (mask is None or isinstance(mask, _Visible))


def _multiplies_ourselves(row: Any) -> bool:
    """On a GPU mlx-lm's attention of one row is one kernel; on the CPU it is a dozen operations, three times ours."""
    if _parts_of(row) or isinstance(row, QuantizedKV):
        return True
    return isinstance(row, KVCache) and mx.default_device().type == mx.DeviceType.cpu


def _across(piece: mx.array) -> mx.array:
    """Between [count, heads, 1, dim] and [1, heads, count, dim]; nothing to do for one token."""
    return piece if piece.shape[0] == piece.shape[2] == 1 else piece.transpose(2, 1, 0, 3)


@dataclass(slots=True)
class _PrefixedRow:
    """One row's attention in one layer: queries as [1, kv_heads, group * count, head_dim], and where its KV lies.

    The leading axis stays throughout: indexing it away makes MLX copy the keys of the whole prefix.
    """

    parts: tuple[SharedPart, ...]
    queries: mx.array
    tail: SharedPart
    heads: int
    count: int
    visible: _Visible | None

    @classmethod
    def of(
        cls, parts: tuple[SharedPart, ...], queries: mx.array, tail: SharedPart, visible: _Visible | None
    ) -> _PrefixedRow:
        """From [1, heads, count, head_dim] scaled queries."""
        _, heads, count, dim = queries.shape
        # Heads of one group lie next to each other, so a reshape brings them to their KV head.
        return cls(parts, queries.reshape(1, tail.keys.heads, -1, dim), tail, heads, count, visible)

    def sink_scores(self, sinks: mx.array) -> mx.array:
        """[1, kv_heads, group * count, 1]"""
        return mx.repeat(sinks.astype(self.queries.dtype), self.count).reshape(1, self.queries.shape[1], -1, 1)

    def tail_scores(self) -> mx.array:
        """[1, kv_heads, group * count, tail]; a new token sees the tail up to itself."""
        scores = self.tail.keys.scores(self.queries)
        if self.visible is None:
            return scores
        by_token = scores.reshape(scores.shape[1], -1, self.count, scores.shape[-1])
        return mx.where(self.visible.tail, by_token, -mx.inf).reshape(scores.shape)


def _attend_prefixed(rows: Sequence[_PrefixedRow], sinks: mx.array | None) -> list[mx.array]:
    """[1, heads, count, head_dim] of each row. `sinks`, [heads], are logits that take weight and give nothing."""
    sharing: dict[SharedPart, list[int]] = {}
    for i, row in enumerate(rows):
        for part in row.parts:
            sharing.setdefault(part, []).append(i)
    scores: dict[tuple[int, SharedPart], mx.array] = {}
    for part, readers in sharing.items():
        product = part.keys.scores(mx.concatenate([rows[i].queries for i in readers], axis=2))
        scores |= zip(((i, part) for i in readers), _split_rows(product, [rows[i] for i in readers]), strict=True)
    weights: dict[tuple[int, SharedPart], mx.array] = {}
    outputs = []
    for i, row in enumerate(rows):
        pieces = [*(scores[i, part] for part in row.parts), row.tail_scores()]
        over = _softmax_over(pieces if sinks is None else [*pieces, row.sink_scores(sinks)])
        *of_parts, of_tail = over[: len(pieces)]
        weights |= {(i, part): piece for part, piece in zip(row.parts, of_parts, strict=True)}
        outputs.append(row.tail.values.weighted(of_tail))
    for part, readers in sharing.items():
        product = part.values.weighted(mx.concatenate([weights[i, part] for i in readers], axis=2))
        for i, piece in zip(readers, _split_rows(product, [rows[i] for i in readers]), strict=True):
            outputs[i] = outputs[i] + piece
    return [output.reshape(1, row.heads, row.count, -1) for row, output in zip(rows, outputs, strict=True)]


def _split_rows(product: mx.array, rows: Sequence[_PrefixedRow]) -> list[mx.array]:
    """Undo the concatenation of the rows' queries along axis 2."""
    ends = list(accumulate(row.queries.shape[2] for row in rows))
    return product.split(tuple(ends[:-1]), axis=2)


def softmax(scores: mx.array) -> mx.array:
    """Over the last axis, in float32 inside.

    MLX's `exp` is a call for each number on x86, 9.7 ns each, and over a long context that takes seven times as long as
    the products. There a power of two takes 3.3 ns, and NumPy's `exp` 0.6; but NumPy has to wait for the scores.
    """
    if scores.size < _FEW_SCORES or mx.default_device().type != mx.DeviceType.cpu:
        return mx.softmax(scores, axis=-1, precise=True)
    exact = scores.astype(mx.float32)
    if scores.size < _MANY_SCORES:
        powers = mx.power(2.0, (exact - exact.max(axis=-1, keepdims=True)) * _LOG2_E)
        return (powers / powers.sum(axis=-1, keepdims=True)).astype(scores.dtype)
    weights = np.array(exact)
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return mx.array(weights).astype(scores.dtype)


def _softmax_over(pieces: list[mx.array]) -> list[mx.array]:
    """One softmax over the concatenated last axes, cut up again."""
    if len(pieces) == 1:
        return [softmax(pieces[0])]
    ends = list(accumulate(piece.shape[-1] for piece in pieces))
    return softmax(mx.concatenate(pieces, axis=-1)).split(tuple(ends[:-1]), axis=-1)


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
        if isinstance(cache, PassKV):
            return cache.attend(queries, scale, mask, sinks)
        return _row_attention(queries, keys, values, cache=cache, scale=scale, mask=mask, sinks=sinks)

    for name, module in list(sys.modules.items()):
        # `base` itself, and modules that were imported before us and hold their own reference to the function.
        if (
            name.startswith("mlx_lm.models.")
            and getattr(module, "scaled_dot_product_attention", None) is _row_attention
        ):
            module.__dict__["scaled_dot_product_attention"] = attention

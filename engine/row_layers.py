"""How the caches of rows are handed to a model for one pass, and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache

from .kv_arrays import KVArray, SharedPart
from .ragged_attention import PartedKV, RaggedKV, SoleKV
from .row_state import RowState, mapped


def own_copy(parts: Sequence[SharedPart]) -> KVCache:
    """The parts' KV in one row's own memory."""
    own = KVCache()
    own.update_and_fetch(
        KVArray.joined([part.keys for part in parts]).dense(), KVArray.joined([part.values for part in parts]).dense()
    )
    return own


def alone(row: RowState, count: int) -> list[Any]:
    """The row's caches for a pass of its own, in mlx-lm's layout."""
    return mapped(row.caches, lambda leaf: SoleKV(leaf, count, row.length) if isinstance(leaf, PartedKV) else leaf)


def gather(caches: Sequence[Any], offset: mx.array) -> Any:
    """One layer's caches of several rows as one: recurrent state stacked, attention ragged."""
    first = caches[0]
    if isinstance(first, CacheList):
        return CacheList(*(gather(parts, offset) for parts in zip(*(cache.caches for cache in caches), strict=True)))
    if isinstance(first, ArraysCache):
        return ArraysCache.merge(caches)
    return RaggedKV(caches, [1] * len(caches), offset)


def scatter(layer: Any, index: int) -> Any:
    """Row `index` of what `gather` made."""
    if isinstance(layer, CacheList):
        return CacheList(*(scatter(part, index) for part in layer.caches))
    return layer.rows[index] if isinstance(layer, RaggedKV) else layer.extract(index)

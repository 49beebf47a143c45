"""What a row's KV takes in memory, by its tokens: measured on the caches of the model that runs. No MLX import."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MOST_TOKENS = 1 << 31


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's keys and values: bytes a token. They grow by `step` tokens from wherever they were full.

    `window` is the most tokens that it keeps; None for all of a sequence, of which a row may share the beginning.
    """

    token_bytes: int
    step: int = 1
    window: int | None = None


class KvCost:
    """Bytes of one row. Layers that grow alike are counted together, so that asking is cheap."""

    def __init__(self, layers: Iterable[Layer], fixed: int = 0) -> None:
        """`fixed` is what does not grow: recurrent state."""
        self._fixed = fixed
        self._bytes: dict[tuple[int, int | None], int] = {}
        for layer in layers:
            kind = (layer.step, layer.window)
            self._bytes[kind] = self._bytes.get(kind, 0) + layer.token_bytes

    def of(self, tokens: int, shared: int = 0) -> int:
        """At most, of a row of so many tokens, the KV of whose first `shared` lies elsewhere."""
        total = self._fixed
        for (step, window), token_bytes in self._bytes.items():
            own = tokens - shared if window is None else tokens
            allocated = own + step - 1 if own else 0
            # Beside a piece of a prompt a window holds that too.
            total += token_bytes * (allocated if window is None else min(allocated, window + step))
        return total


NO_KV = KvCost([])


@dataclass(frozen=True, slots=True)
class KvBudget:
    """How many bytes all KV may take. Rows are given as (tokens, of them shared); a draft model's KV shares nothing."""

    cost: KvCost
    nbytes: int
    draft_cost: KvCost = NO_KV

    @property
    def tokens(self) -> int:
        """The most tokens that one request can have; 0 when not even one."""
        return bisect_right(range(1, MOST_TOKENS), self.nbytes, key=lambda tokens: self.taken([(tokens, 0)]))

    def taken(self, rows: Iterable[tuple[int, int]]) -> int:
        """Bytes of these rows' own KV."""
        return sum(self.cost.of(tokens, shared) + self.draft_cost.of(tokens) for tokens, shared in rows)


def measured(caches: Sequence[Any]) -> KvCost:
    """Of mlx-lm's caches after a first, short piece of a prompt, be it evaluated or not."""
    layers: list[Layer] = []
    fixed = 0
    for cache in _leaves(caches):
        keys = getattr(cache, "keys", None)
        if keys is None:
            fixed += cache.nbytes
            continue
        # Quantized keys are their packed values, scales and biases.
        held = (keys[0] if isinstance(keys, tuple) else keys).shape[-2]
        window = getattr(cache, "max_size", None) or getattr(cache, "chunk_size", None)
        layers.append(Layer(cache.nbytes // held, getattr(cache, "step", 1), window))
    return KvCost(layers, fixed)


def _leaves(caches: Sequence[Any]) -> Iterator[Any]:
    for cache in caches:
        parts = getattr(cache, "caches", None)
        if parts is None:
            yield cache
        else:
            yield from _leaves(parts)

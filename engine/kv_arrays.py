"""Keys and values of consecutive tokens, as the model computed them or quantized, behind the same few operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx


@dataclass(frozen=True, slots=True)
class Quantization:
    """How `mx.quantize` packs an array: bits a number, and how many numbers share a scale and a bias."""

    bits: int
    group_size: int

    def __str__(self) -> str:
        return f"q{self.bits}g{self.group_size}"


@dataclass(frozen=True, slots=True, eq=False)
class KVArray:
    """[1, kv_heads, tokens, head_dim]: that array, or what `mx.quantize` makes of it (packed, scales, biases)."""

    arrays: tuple[mx.array, ...]
    quantization: Quantization | None = None

    @classmethod
    def of(cls, arrays: Any, quantization: Quantization | None) -> KVArray:
        """From what one of mlx-lm's caches holds: an array, or three in any sequence."""
        return cls((arrays,) if isinstance(arrays, mx.array) else tuple(arrays), quantization)

    @property
    def heads(self) -> int:
        return self.arrays[0].shape[1]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def cut(self, start: int, end: int) -> KVArray:
        """The tokens from `start` to `end`, as views of the same memory."""
        return self._each(lambda array: array[..., start:end, :])

    def copied(self) -> KVArray:
        """The same in memory of its own."""
        return self._each(mx.contiguous)

    def quantized(self, how: Quantization) -> KVArray:
        assert self.quantization is None, "quantized twice"
        return KVArray(tuple(mx.quantize(self.arrays[0], group_size=how.group_size, bits=how.bits)), how)

    def dense(self) -> mx.array:
        """[1, kv_heads, tokens, head_dim], whatever it is kept as."""
        if self.quantization is None:
            return self.arrays[0]
        packed, scales, biases = self.arrays
        how = self.quantization
        return mx.dequantize(packed, scales, biases, group_size=how.group_size, bits=how.bits)

    def scores(self, queries: mx.array) -> mx.array:
        """Queries [1, kv_heads, n, head_dim] against these keys: [1, kv_heads, n, tokens]."""
        if self._multiplies_packed:
            return self._packed_product(queries, transpose=True)
        return queries @ self.dense().swapaxes(-1, -2)

    def weighted(self, weights: mx.array) -> mx.array:
        """Weights [1, kv_heads, n, tokens] over these values: [1, kv_heads, n, head_dim]."""
        if self._multiplies_packed:
            return self._packed_product(weights, transpose=False)
        return weights @ self.dense()

    @staticmethod
    def joined(pieces: Sequence[KVArray]) -> KVArray:
        """One after the other, copied into one."""
        columns = zip(*(piece.arrays for piece in pieces), strict=True)
        return KVArray(tuple(mx.concatenate(list(column), axis=2) for column in columns), pieces[0].quantization)

    @property
    def _multiplies_packed(self) -> bool:
        """A GPU saves reading what is not packed. A CPU's kernel loses 2 to 40 times what unpacking once costs."""
        return self.quantization is not None and mx.default_device().type != mx.DeviceType.cpu

    def _packed_product(self, left: mx.array, transpose: bool) -> mx.array:
        assert self.quantization is not None
        packed, scales, biases = self.arrays
        how = self.quantization
        return mx.quantized_matmul(
            left, packed, scales, biases, transpose=transpose, group_size=how.group_size, bits=how.bits
        )

    def _each(self, change: Callable[[mx.array], mx.array]) -> KVArray:
        return KVArray(tuple(map(change, self.arrays)), self.quantization)


@dataclass(frozen=True, slots=True, eq=False)
class SharedPart:
    """One layer's keys and values that several rows may read. Rows share it by identity."""

    keys: KVArray
    values: KVArray

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def each(self, change: Callable[[KVArray], KVArray]) -> SharedPart:
        return SharedPart(change(self.keys), change(self.values))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Prefix:
    """Consecutive tokens' KV in every layer, computed once; immutable."""

    layers: tuple[SharedPart, ...]
    tokens: int

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.layers)

    def piece(self, start: int, count: int) -> Prefix:
        """`count` tokens from `start`, as views of the same memory."""
        if (start, count) == (0, self.tokens):
            return self
        return _computed([part.each(lambda array: array.cut(start, start + count)) for part in self.layers], count)

    def quantized(self, how: Quantization) -> Prefix:
        return _computed([part.each(lambda array: array.quantized(how)) for part in self.layers], self.tokens)

    def dense(self) -> Prefix:
        """The same with nothing quantized."""
        return _computed([part.each(lambda array: KVArray((array.dense(),))) for part in self.layers], self.tokens)

    @staticmethod
    def copied(caches: Sequence[Any], start: int, count: int) -> Prefix:
        """`count` tokens of a row's own tail from its index `start`, in memory of their own."""
        tails = [tail_of(cache) for cache in caches]
        return _computed([tail.each(lambda array: array.cut(start, start + count).copied()) for tail in tails], count)

    @staticmethod
    def joined(pieces: Sequence[Prefix]) -> Prefix:
        """The pieces one after the other, copied into one."""
        by_layer = zip(*(piece.layers for piece in pieces), strict=True)
        layers = [
            SharedPart(KVArray.joined([part.keys for part in parts]), KVArray.joined([part.values for part in parts]))
            for parts in by_layer
        ]
        return _computed(layers, sum(piece.tokens for piece in pieces))


def tail_of(cache: Any) -> SharedPart:
    """What one of a row's caches holds, with what lies behind its tokens."""
    how = getattr(cache, "quantization", None)
    return SharedPart(KVArray.of(cache.keys, how), KVArray.of(cache.values, how))


def _computed(layers: Sequence[SharedPart], tokens: int) -> Prefix:
    """Evaluated here: a graph would hold what it was made from."""
    mx.eval([array for part in layers for array in (*part.keys.arrays, *part.values.arrays)])
    return Prefix(tuple(layers), tokens)

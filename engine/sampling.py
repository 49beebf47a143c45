"""The next token of every row at once, as a function of (seed, position) only.

Each row draws with Gumbel noise from a key made of its seed and the token's position in its output, so that a request
gives the same tokens alone, in any batch, and over any number of incarnations (up to floating-point ties).
Order of the filters, as in vLLM: temperature, then min-p, top-k and top-p on the scaled distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from .protocol import Sampling

MAX_CANDIDATES = 4096
"""Top-k and top-p look at this many likeliest tokens: sorting a whole vocabulary costs more than all else here."""

_MASK64 = (1 << 64) - 1


def draw_key(seed: int, position: int) -> tuple[int, int]:
    """Two uint32 words for MLX's counter-based generator (Threefry takes a key of 64 bits).

    SplitMix64 (Steele, Lea and Flood 2014) over seed and position, so that neighbouring positions are unrelated.
    """
    mixed = _mix64(_mix64(seed & _MASK64) + 0x9E3779B97F4A7C15 * (position + 1))
    return mixed >> 32, mixed & 0xFFFFFFFF


def _mix64(value: int) -> int:
    value &= _MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK64
    return value ^ (value >> 31)


class BatchSampler:
    """Sampling for a fixed set of rows; made anew when the set changes, called every step."""

    def __init__(self, rows: Sequence[Sampling]) -> None:
        self._seeds = [row.seed for row in rows]
        self._greedy = mx.array([row.temperature == 0 for row in rows])[:, None]
        self._all_greedy = all(row.temperature == 0 for row in rows)
        self._inverse_temperature = mx.array([1 / row.temperature if row.temperature else 1.0 for row in rows])[:, None]
        drawing = [row for row in rows if row.temperature]
        self._any_min_p = any(row.min_p > 0 for row in drawing)
        self._log_min_p = mx.log(mx.array([row.min_p for row in rows]))[:, None]
        self._any_top = any(row.top_k > 0 or row.top_p < 1 for row in drawing)
        self._untouched = mx.array([row.top_k == 0 and row.top_p == 1 for row in rows])[:, None]
        self._top_p = mx.array([row.top_p for row in rows])[:, None]
        self._top_k = [row.top_k for row in rows]

    def __call__(self, logits: mx.array, positions: Sequence[int]) -> mx.array:
        """[rows, vocabulary] logits to [rows] token ids; `positions[i]` is the output position of row i's token."""
        if self._all_greedy:
            return mx.argmax(logits, axis=-1)
        scores = logits.astype(mx.float32)
        filtered = self._filter(scores * self._inverse_temperature)
        keys = mx.array([draw_key(*at) for at in zip(self._seeds, positions, strict=True)], dtype=mx.uint32)
        return mx.argmax(mx.where(self._greedy, scores, filtered + _gumbel(keys, scores.shape[-1])), axis=-1)

    def _filter(self, scaled: mx.array) -> mx.array:
        """Minus infinity where a row's min-p, top-k or top-p excludes a token."""
        if self._any_min_p:
            floor = mx.max(scaled, axis=-1, keepdims=True) + self._log_min_p
            scaled = mx.where(scaled < floor, -mx.inf, scaled)
        if self._any_top:
            scaled = mx.where(scaled < self._top_threshold(scaled), -mx.inf, scaled)
        return scaled

    def _top_threshold(self, scaled: mx.array) -> mx.array:
        """[rows, 1]: the smallest score that top-k and top-p leave in; minus infinity for a row that sets neither."""
        count = min(MAX_CANDIDATES, scaled.shape[-1])
        candidates = -mx.sort(-mx.topk(scaled, count, axis=-1), axis=-1)
        probabilities = mx.exp(candidates - mx.logsumexp(scaled, axis=-1, keepdims=True))
        # A token stays while the mass before it is short of top_p, so the likeliest always stays.
        before = mx.cumsum(probabilities, axis=-1) - probabilities
        kept = mx.sum(before < self._top_p, axis=-1, keepdims=True)
        bound = mx.array([min(k, count) if k > 0 else count for k in self._top_k])[:, None]
        last = mx.maximum(mx.minimum(kept, bound), 1) - 1
        # A row's tokens must not depend on whether another row in the batch brought a filter.
        return mx.where(self._untouched, -mx.inf, mx.take_along_axis(candidates, last, axis=-1))


def _gumbel(keys: mx.array, vocabulary: int) -> mx.array:
    """[rows, vocabulary] of noise, each row from its own [2] key."""

    def noise(key: mx.array) -> mx.array:
        return mx.random.gumbel((vocabulary,), key=key)

    return mx.vmap(noise)(keys)

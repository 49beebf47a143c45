"""The next token at every drawing position at once, as a function of (seed, position) only.

Each position draws with Gumbel noise from a key made of its row's seed and its place in the output, so that a request
gives the same tokens alone, in any batch, with or without drafts, and over any number of incarnations (up to
floating-point ties). Order, as in vLLM: bias, penalties and grammar (`adjustments`), temperature, then min-p, top-k
and top-p on the scaled distribution.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from .adjustments import Context, adjust
from .protocol import Sampling, TokenLogprob

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


@dataclass(frozen=True, slots=True)
class Draws:
    """What one step drew, lazily: [positions] tokens and, where any row asked, their log probabilities."""

    tokens: mx.array
    logprobs: mx.array | None = None
    """[positions]: of the drawn tokens."""
    top_ids: mx.array | None = None
    """[positions, n]: the n likeliest, in no order, n the most that any row asked for."""
    top_logprobs: mx.array | None = None

    def arrays(self) -> list[mx.array]:
        """All that is to be evaluated."""
        return [array for array in (self.tokens, self.logprobs, self.top_ids, self.top_logprobs) if array is not None]

    def read(self, samplings: Sequence[Sampling]) -> list[tuple[int, TokenLogprob | None]]:
        """Wait for the draws; token and log probabilities of each position, whose rows' sampling is given."""
        tokens: list[int] = self.tokens.tolist()  # type: ignore[assignment]  # one-dimensional, so a flat list
        if self.logprobs is None or self.top_ids is None or self.top_logprobs is None:
            return [(token, None) for token in tokens]
        logprobs: list[float] = self.logprobs.tolist()  # type: ignore[assignment]
        top_ids: list[list[int]] = self.top_ids.tolist()  # type: ignore[assignment]
        top_logprobs: list[list[float]] = self.top_logprobs.tolist()  # type: ignore[assignment]
        by_position = zip(samplings, logprobs, top_ids, top_logprobs, strict=True)
        return list(zip(tokens, (_logprob(*of_position) for of_position in by_position), strict=True))


def _logprob(sampling: Sampling, logprob: float, ids: list[int], logprobs: list[float]) -> TokenLogprob | None:
    if sampling.top_logprobs is None:
        return None
    top = sorted(zip(ids, logprobs, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return TokenLogprob(logprob, top[: sampling.top_logprobs])


class Sampler:
    """Draws for a fixed list of positions' samplings; made anew when the list changes, called every step."""

    def __init__(self, positions: Sequence[Sampling]) -> None:
        self._samplings = positions
        self._seeds = [sampling.seed for sampling in positions]
        self._greedy = mx.array([sampling.temperature == 0 for sampling in positions])[:, None]
        self._all_greedy = all(sampling.temperature == 0 for sampling in positions)
        self._inverse_temperature = mx.array([1 / (sampling.temperature or 1.0) for sampling in positions])[:, None]
        drawing = [sampling for sampling in positions if sampling.temperature]
        self._any_min_p = any(sampling.min_p > 0 for sampling in drawing)
        self._log_min_p = mx.log(mx.array([sampling.min_p for sampling in positions]))[:, None]
        self._any_top = any(sampling.top_k > 0 or sampling.top_p < 1 for sampling in drawing)
        self._untouched = mx.array([sampling.top_k == 0 and sampling.top_p == 1 for sampling in positions])[:, None]
        self._top_p = mx.array([sampling.top_p for sampling in positions])[:, None]
        self._top_k = [sampling.top_k for sampling in positions]
        asked = [sampling.top_logprobs for sampling in positions if sampling.top_logprobs is not None]
        self._top_logprobs = max(asked) if asked else None

    def __call__(self, logits: mx.array, positions: Sequence[int], context: Context) -> Draws:
        """From [positions, vocabulary] logits; `positions[i]` is the i-th token's place in its row's output."""
        tokens = self._draw(adjust(logits, self._samplings, context), positions)
        if self._top_logprobs is None:
            return Draws(tokens)
        scores = logits.astype(mx.float32)
        logprobs = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
        of_drawn = mx.take_along_axis(logprobs, tokens[:, None], axis=-1)[:, 0]
        count = max(1, self._top_logprobs)
        top_ids = mx.argpartition(-logprobs, kth=count - 1, axis=-1)[:, :count]
        return Draws(tokens, of_drawn, top_ids, mx.take_along_axis(logprobs, top_ids, axis=-1))

    def _draw(self, logits: mx.array, positions: Sequence[int]) -> mx.array:
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


@dataclass(slots=True)
class SamplerCache:
    """The sampler of the last step, kept while the same rows draw the same way."""

    _samplings: list[Sampling] = field(default_factory=list)
    _sampler: Sampler = field(default_factory=lambda: Sampler([]))

    def get(self, samplings: list[Sampling]) -> Sampler:
        same = len(samplings) == len(self._samplings) and all(map(operator.is_, samplings, self._samplings))
        if not same:
            self._samplings, self._sampler = samplings, Sampler(samplings)
        return self._sampler


def _gumbel(keys: mx.array, vocabulary: int) -> mx.array:
    """[rows, vocabulary] of noise, each row from its own [2] key."""

    def noise(key: mx.array) -> mx.array:
        return mx.random.gumbel((vocabulary,), key=key)

    return mx.vmap(noise)(keys)

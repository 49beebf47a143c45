"""What changes logits before a token is drawn: bias, penalties for tokens that came before, and grammar masks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from .protocol import Sampling


class History:
    """Which tokens one row has in its prompt, and how often each is in its output."""

    def __init__(self, vocabulary: int, prompt: Sequence[int], output: Sequence[int]) -> None:
        self.counts: NDArray[np.float32] = np.zeros(vocabulary, dtype=np.float32)
        self.seen: NDArray[np.bool_] = np.zeros(vocabulary, dtype=np.bool_)
        self.seen[np.asarray(prompt, dtype=np.int64)] = True
        self.extend(output)

    def extend(self, tokens: Iterable[int]) -> None:
        """These tokens came out."""
        for token in tokens:
            self.counts[token] += 1
            self.seen[token] = True

    def after(self, draft: Sequence[int]) -> History:
        """As it would be with a draft accepted."""
        copy = History.__new__(History)
        copy.counts, copy.seen = self.counts.copy(), self.seen.copy()
        copy.extend(draft)
        return copy


@dataclass(frozen=True, slots=True)
class Context:
    """What the positions of a step stand on: a history where the row's sampling looks back, and grammar masks."""

    histories: Sequence[History | None] = ()
    masks: NDArray[np.uint32] | None = field(default=None)
    """[positions, ceil(vocabulary / 32)]: bit i % 32 of word i // 32 is set when token i may come."""


def adjust(logits: mx.array, samplings: Sequence[Sampling], context: Context) -> mx.array:
    """[positions, vocabulary] logits with everything applied that the samplings and the context ask for."""
    vocabulary = logits.shape[-1]
    if any(sampling.logit_bias for sampling in samplings):
        logits = logits + mx.array(_bias(samplings, vocabulary))
    if any(sampling.looks_back for sampling in samplings):
        logits = _penalize(logits, samplings, context.histories)
    if context.masks is not None:
        logits = mx.where(_bits(mx.array(context.masks), vocabulary), logits, -mx.inf)
    return logits


def _bias(samplings: Sequence[Sampling], vocabulary: int) -> NDArray[np.float32]:
    bias = np.zeros((len(samplings), vocabulary), dtype=np.float32)
    for row, sampling in enumerate(samplings):
        for token, value in sampling.logit_bias.items():
            bias[row, token] = value
    return bias


def _penalize(logits: mx.array, samplings: Sequence[Sampling], histories: Sequence[History | None]) -> mx.array:
    vocabulary = logits.shape[-1]
    counts = np.zeros((len(samplings), vocabulary), dtype=np.float32)
    seen = np.zeros((len(samplings), vocabulary), dtype=np.bool_)
    for row, history in enumerate(histories):
        if history is not None:
            counts[row], seen[row] = history.counts, history.seen
    repetition = mx.array([sampling.repetition_penalty for sampling in samplings])[:, None]
    presence = mx.array([sampling.presence_penalty for sampling in samplings])[:, None]
    frequency = mx.array([sampling.frequency_penalty for sampling in samplings])[:, None]
    repeated = mx.where(logits > 0, logits / repetition, logits * repetition)
    in_output = mx.array(counts)
    return mx.where(mx.array(seen), repeated, logits) - presence * (in_output > 0) - frequency * in_output


def _bits(words: mx.array, vocabulary: int) -> mx.array:
    """[positions, words] uint32 to [positions, vocabulary] booleans."""
    bits = (words[:, :, None] >> mx.arange(32, dtype=mx.uint32)) & 1
    return bits.reshape(words.shape[0], -1)[:, :vocabulary].astype(mx.bool_)

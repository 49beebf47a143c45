"""The child process that measures what a precision costs: `python -m stoker.engine.quality REFERENCE FOLDER…`.

For each model folder after the first it prints a line of JSON: its perplexity on a small text, and how far its
distributions are from the reference's, as mean Kullback-Leibler divergence in nats (Kullback and Leibler 1951) and as
the share of positions where both think the same token likeliest.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm import load
from mlx_lm.utils import dequantize_model

from .quality_text import TEXT

WINDOW = 256
"""Tokens read at once; each window is judged for itself. A vocabulary of 150,000 takes 150 MB for one."""


@dataclass(frozen=True)
class Quality:
    """Of one model on the text, beside the reference."""

    perplexity: float
    divergence: float
    agreement: float


def main() -> None:
    """In the order of the arguments."""
    reference, *folders = sys.argv[1:]
    windows, truth = _read(reference)
    for folder in folders:
        sys.stdout.write(json.dumps(asdict(_compared(windows, truth, folder))) + "\n")


def _read(folder: str) -> tuple[list[list[int]], list[mx.array]]:
    """The text as the reference tokenizes it, and its log probabilities."""
    model, tokenizer = load(folder)[:2]
    ids = tokenizer.encode(TEXT)
    windows = [ids[start : start + WINDOW] for start in range(0, len(ids), WINDOW)]
    windows = [window for window in windows if len(window) > 1]
    return windows, [_log_probabilities(model, window) for window in windows]


def _compared(windows: list[list[int]], truth: list[mx.array], folder: str) -> Quality:
    model = load(folder)[0]
    if mx.default_device() == mx.Device(mx.cpu):
        # The same weights, and multiplied twenty times as fast: MLX's quantized kernels for CPUs are slow.
        model = dequantize_model(model)
    lost = diverged = agreed = 0.0
    for window, right in zip(windows, truth, strict=True):
        said = _log_probabilities(model, window)
        lost -= _number(said[mx.arange(len(window) - 1), mx.array(window[1:])])
        diverged += _number(mx.exp(right) * (right - said))
        agreed += _number(mx.argmax(right, axis=-1) == mx.argmax(said, axis=-1))
    count = sum(len(window) - 1 for window in windows)
    return Quality(math.exp(lost / count), max(0.0, diverged / count), agreed / count)


def _number(values: mx.array) -> float:
    return float(np.asarray(values.astype(mx.float32), dtype=np.float64).sum())


def _log_probabilities(model: Any, window: list[int]) -> mx.array:
    """(positions, vocabulary), in float32: what the model expects after each token but the last."""
    logits: mx.array = model(mx.array([window[:-1]]))[0].astype(mx.float32)
    made: mx.array = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    mx.eval(made)
    return made


if __name__ == "__main__":
    main()

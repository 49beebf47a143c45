"""How much of a prompt one step computes: as much as fits beside running streams without breaking their rhythm.

Pure; step times are told. While nothing decodes a chunk may be as large as is allowed. Beside streams, a step may
take as long as the target between two tokens, or `STRETCH` times what the streams' own step takes, whichever is
longer. A pause is shared by those who wait for a first token: with as many rows in prefill as in decode it may be
three times as long, for the sake of the whole batch's throughput: rows that begin late end late, in a batch that the
others have left.
"""

from __future__ import annotations

import numpy as np

STRETCH = 2.2
OF_WAITING = 2.0
"""How much a row that waits for its first token counts against one whose next token waits."""
MIN_CHUNK = 8

_FIRST_COSTS = (0.045, 0.005, 0.003)
"""Seconds of a step, of each stream in it and of each prompt token in it, before any was measured (CPU, demo model)."""
_TYPICAL = np.array([1.0, 8.0, 64.0])
"""How many of each a step has: what a whole step's time is compared with when it tells about one of them."""
_DRIFT = 0.02
_NOISE = 0.15
_OUTLIER = 3.0


class PrefillPace:
    """Chooses chunk sizes, and learns from finished steps what they cost."""

    def __init__(self, max_chunk: int, target_s: float) -> None:
        self._max_chunk = max_chunk
        self._target_s = target_s
        self._cost = _StepCost()

    def chunk(self, decoding: int, prefilling: int) -> int:
        """Prompt tokens for the next step, beside `decoding` streams, when `prefilling` rows want some."""
        if decoding == 0:
            return self._max_chunk
        own_s = self._cost.seconds(decoding, 0)
        pause = max(self._target_s, STRETCH * own_s) * (1 + OF_WAITING * max(0, prefilling - 1) / decoding)
        return max(MIN_CHUNK, min(self._max_chunk, int((pause - own_s) / self._cost.prompt_token_s)))

    def observe(self, seconds: float, decoding: int, prefill_tokens: int) -> None:
        """A step took so long, with so many streams and tokens of prompts in it."""
        self._cost.observe(seconds, decoding, prefill_tokens)


class _StepCost:
    """Seconds of a step as a sum: its own, those of each stream and those of each prompt token (a Kalman filter).

    All three are learned together from every step. Taken apart, with the streams' part known only from steps without
    prompts, a burst of arrivals has no such steps, their part is counted among the tokens', chunks shrink, and the
    fewer tokens then seem to cost even more.
    """

    def __init__(self) -> None:
        self._parts = np.array(_FIRST_COSTS)
        self._covariance = np.diag(self._parts**2)

    @property
    def prompt_token_s(self) -> float:
        return float(self._parts[2])

    def seconds(self, decoding: int, prompt_tokens: int) -> float:
        return float(self._parts @ np.array([1.0, decoding, prompt_tokens]))

    def observe(self, seconds: float, decoding: int, prompt_tokens: int) -> None:
        counts = np.array([1.0, decoding, prompt_tokens])
        expected = self.seconds(decoding, prompt_tokens)
        # A step that was held up tells nothing; on a slow machine, a few of them tell that it is slow.
        seconds = max(1e-6, min(seconds, _OUTLIER * expected))
        self._drift(seconds / _TYPICAL)
        spread = self._covariance @ counts
        gain = spread / (counts @ spread + (_NOISE * max(seconds, expected)) ** 2)
        self._parts = np.maximum(self._parts + gain * (seconds - expected), 1e-6)
        self._covariance -= np.outer(gain, spread)

    def _drift(self, scale: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        """What was known becomes less certain, up to the scale of a whole step."""
        self._covariance += np.diag((_DRIFT * scale) ** 2)
        shrunk = np.minimum(1.0, scale / np.sqrt(np.diag(self._covariance)))
        self._covariance *= np.outer(shrunk, shrunk)

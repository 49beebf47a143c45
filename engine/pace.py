"""How much of a prompt one step computes: as much as fits beside running streams without breaking their rhythm.

Pure; step times are told. While nothing decodes a chunk may be as large as is allowed. Beside streams, a step may
take as long as the target between two tokens, or `STRETCH` times what the streams' own step takes, whichever is
longer. A pause is shared by those who wait for a first token: with as many rows in prefill as in decode it may be
twice as long, for the sake of the whole batch's throughput.
"""

from __future__ import annotations

from dataclasses import dataclass

STRETCH = 2.2
MIN_CHUNK = 8
_MEMORY = 0.2
"""Weight of the newest step in the running estimates."""
_FIRST_TOKEN_S = 0.004
"""Seconds of a prompt token before any was measured (CPU, demo model)."""


@dataclass(slots=True)
class PrefillPace:
    """Chooses chunk sizes, and learns from finished steps what they cost."""

    max_chunk: int
    target_s: float
    _decode_step_s: float = 0.0
    _token_s: float = _FIRST_TOKEN_S

    def chunk(self, decoding: int, prefilling: int) -> int:
        """Prompt tokens for the next step, beside `decoding` streams, when `prefilling` rows want some."""
        if decoding == 0:
            return self.max_chunk
        pause = max(self.target_s, STRETCH * self._decode_step_s) * (1 + max(0, prefilling - 1) / decoding)
        return max(MIN_CHUNK, min(self.max_chunk, int((pause - self._decode_step_s) / self._token_s)))

    def observe(self, seconds: float, decoding: int, prefill_tokens: int) -> None:
        """A step took so long, with so many streams and tokens of prompts in it."""
        if prefill_tokens == 0:
            if decoding:
                self._decode_step_s = _blend(self._decode_step_s, seconds)
            return
        beside = self._decode_step_s if decoding else 0.0
        self._token_s = _blend(self._token_s, max(0.0, seconds - beside) / prefill_tokens)


def _blend(old: float, new: float) -> float:
    return new if old == 0 else old + _MEMORY * (new - old)

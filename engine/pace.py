"""How much of a prompt one step computes: as much as fits beside running streams without breaking their rhythm.

Pure; step times are told. While nothing decodes a chunk may be as large as is allowed. Beside streams, a step may
take as long as the target between two tokens, or `STRETCH` times what the streams' own step takes, whichever is
longer. A pause is shared by those who wait for a first token: with as many rows in prefill as in decode it may be
five times as long, for the sake of the whole batch's throughput: rows that begin late end late, in a batch that the
others have left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

STRETCH = 2.8
LEAST_WORK = 0.6
"""A chunk may take at least so much of what its step takes without it: behind a very long prompt smaller ones would
cost the streams even more, since each of them reads all of its KV anew."""
OF_WAITING = 4.0
"""How much a row that waits for its first token counts against one whose next token waits."""
MIN_CHUNK = 8
LOOK_EVERY = 16
LOOK_TOKENS = 4
"""One in so many steps beside a long prompt computes so few of its tokens, less than any other, to see what is theirs
and what the streams' and the whole prompt's: chunks that are all alike do not tell, and what seems dearer than it is
gets longer pauses, or the smallest chunks for ever."""

_FIRST_COSTS = (0.045, 0.005, 0.003, 0.001, 0.015)
"""Seconds of a step, of each stream in it, of each prompt token in it, of each thousand tokens that all of these
attend to and of each thousand that lie behind its prompt tokens, before any was measured (CPU, demo model)."""
_TYPICAL = np.array([1.0, 8.0, 64.0, 64.0, 2.0])
"""How many of each a step has: what a whole step's time is compared with when it tells about one of them."""
_LEAST_S = 1e-6
_DRIFT = 0.02
_NOISE = 0.15
_OUTLIER = 3.0


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What a step computes."""

    decoding: int
    """Streams that get a token."""
    prompt_tokens: int
    attended: int
    """How many tokens each of all these tokens attends to, summed up."""
    behind: int
    """How many tokens of these prompts were computed before: their KV is read once, for however many new tokens."""

    @property
    def parts(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """What `_StepCost` has a price for."""
        return np.array([1.0, self.decoding, self.prompt_tokens, self.attended / 1000, self.behind / 1000])


class PrefillPace:
    """Chooses chunk sizes, and learns from finished steps what they cost."""

    def __init__(self, max_chunk: int, target_s: float) -> None:
        self._max_chunk = max_chunk
        self._target_s = target_s
        self._cost = _StepCost()
        self._steps_beside = 0

    def chunk(self, decoding: Sequence[int], prefilling: Sequence[int]) -> int:
        """Prompt tokens for the next step: `decoding` are the lengths of the streams beside which they are computed,
        `prefilling` how much is known of each prompt that wants some."""
        if not decoding:
            return self._max_chunk
        if len(prefilling) == 1 and self._steps_beside % LOOK_EVERY == LOOK_EVERY - 1:
            return LOOK_TOKENS
        longest = max(prefilling, default=0)
        own_s = self._cost.seconds(StepLoad(len(decoding), 0, sum(decoding), behind=0))
        without_s = self._cost.seconds(StepLoad(len(decoding), 0, sum(decoding), longest))
        waiting = OF_WAITING * max(0, len(prefilling) - 1) / len(decoding)
        pause = max(self._target_s, STRETCH * own_s) * (1 + waiting)
        work_s = max(pause - without_s, LEAST_WORK * without_s)
        return max(MIN_CHUNK, min(self._max_chunk, int(work_s / self._cost.prompt_token_s(longest))))

    def observe(self, seconds: float, load: StepLoad) -> None:
        """A step took so long."""
        if load.decoding and load.prompt_tokens:
            self._steps_beside += 1
        self._cost.observe(seconds, load)


class _StepCost:
    """Seconds of a step as a sum: its own, those of each stream, of each prompt token, of what all of them attend to,
    and of what is read for prompts that are already long (a Kalman filter).

    All five are learned together from every step. Taken apart, with the streams' part known only from steps without
    prompts, a burst of arrivals has no such steps, their part is counted among the tokens', chunks shrink, and the
    fewer tokens then seem to cost even more. Without the last two, a long prompt whose tokens become dearer seems to
    be streams and steps that do, and the pauses that these may have grow with it.
    """

    def __init__(self) -> None:
        self._parts = np.array(_FIRST_COSTS)
        self._covariance = np.diag(self._parts**2)

    def prompt_token_s(self, behind: int) -> float:
        """What one more prompt token costs, behind so many."""
        return float(self._parts[2] + self._parts[3] * behind / 1000)

    def seconds(self, load: StepLoad) -> float:
        return float(self._parts @ load.parts)

    def observe(self, seconds: float, load: StepLoad) -> None:
        counts = load.parts
        expected = self.seconds(load)
        # A step that was held up tells nothing; on a slow machine, a few of them tell that it is slow.
        seconds = max(_LEAST_S, min(seconds, _OUTLIER * expected))
        self._drift(seconds / _TYPICAL)
        noise = (_NOISE * max(seconds, expected)) ** 2
        covariance = self._covariance
        free = np.ones(len(counts), dtype=bool)
        while True:
            spread = covariance @ (free * counts)
            gain = free * spread / (free * counts @ spread + noise)
            parts = self._parts + gain * (seconds - self._parts @ counts)
            negative = parts < _LEAST_S
            if not negative.any():
                break
            # What would cost less than nothing costs nothing, and the others explain the rest without it.
            self._parts[negative] = _LEAST_S
            free &= ~negative
            covariance = np.where(np.outer(free, free), covariance, np.diag(np.diag(covariance)))
        self._parts = parts
        self._covariance = covariance - np.outer(gain, free * spread)

    def _drift(self, scale: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        """What was known becomes less certain, up to the scale of a whole step."""
        self._covariance += np.diag((_DRIFT * scale) ** 2)
        shrunk = np.minimum(1.0, scale / np.sqrt(np.diag(self._covariance)))
        self._covariance *= np.outer(shrunk, shrunk)

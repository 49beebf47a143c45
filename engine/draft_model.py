"""A second, smaller model of the same tokenizer that guesses what the rows say next; each row has its own KV in it.

A guess is drawn with the row's own sampling and the very key with which the target will draw that position: where both
models think alike they then draw alike, at any temperature. The KV is only brought up to the row's tokens when a draft
is asked for, in bounded pieces, so that a row which the draft model never helps costs it nothing. Step thread only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import mlx.core as mx
import msgspec

from .adjustments import Context
from .protocol import Sampling
from .ragged import RaggedModel
from .row_state import RowState
from .sampling import SamplerCache
from .speculative import common_prefix

CATCH_UP_TOKENS = 256
"""Known tokens that one call computes; rows that lack more than is left of it get no draft yet."""


@dataclass(slots=True, eq=False)
class _Row:
    state: RowState
    tokens: list[int]
    """The row's sequence."""
    prompt_tokens: int
    """Where its output begins; output position 0 is the token at this index."""
    sampling: Sampling
    guesses: list[int]
    """What the state holds behind the tokens that were final when they were computed."""

    @property
    def missing(self) -> int:
        return len(self.tokens) - self.state.length


class DraftModel:
    """Implements `speculative.BatchProposer` on MLX. Only for models that `trims`."""

    def __init__(self, model: RaggedModel, vocabulary: int) -> None:
        """`vocabulary` is the width of the target's logits."""
        assert model.trims, "a draft model must be able to take tokens back"
        self._model = model
        self._vocabulary = vocabulary
        self._rows: dict[str, _Row] = {}
        self._samplers = SamplerCache()

    @property
    def kv_nbytes(self) -> int:
        return sum(cache.nbytes for row in self._rows.values() for cache in row.state.caches)

    def add(self, row_id: str, tokens: Sequence[int], sampling: Sampling, position: int) -> None:
        # What looks back at the output or at a grammar is the target's: a guess need not know.
        alike = msgspec.structs.replace(
            sampling, top_logprobs=None, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0
        )
        self._rows[row_id] = _Row(self._model.new_row(), list(tokens), len(tokens) - position, alike, [])

    def extend(self, row_id: str, tokens: Sequence[int]) -> None:
        row = self._rows[row_id]
        if wrong := len(row.guesses) - common_prefix(row.guesses, tokens):
            self._model.trim(row.state, wrong)
        row.guesses.clear()
        row.tokens.extend(tokens)

    def remove(self, row_id: str) -> None:
        self._rows.pop(row_id, None)

    def propose(self, lengths: Mapping[str, int]) -> dict[str, list[int]]:
        ready, behind = self._reach({row_id: self._rows[row_id] for row_id in lengths})
        # The longest first, so that the rows of each pass are the first ones of the pass before.
        ready.sort(key=lambda row_id: -lengths[row_id])
        drawn = self._first_pass([self._rows[row_id] for row_id in ready], behind)
        passes = [drawn]
        for number in range(1, max((lengths[row_id] for row_id in ready), default=0)):
            active = [self._rows[row_id] for row_id in ready if lengths[row_id] > number]
            logits = self._model.forward(
                [row.state for row in active], [1] * len(active), drawn[: len(active)], range(len(active))
            )
            drawn = self._draw(active, logits, number)
            passes.append(drawn)
        mx.eval(passes, [cache.state for row, _ in behind for cache in row.state.caches])
        return dict(zip(ready, self._noted(ready, lengths, passes), strict=True))

    def _reach(self, rows: Mapping[str, _Row]) -> tuple[list[str], list[tuple[_Row, int]]]:
        """Rows whose missing tokens this call can compute, and those of which it computes so many only."""
        ready: list[str] = []
        behind: list[tuple[_Row, int]] = []
        left = CATCH_UP_TOKENS
        for row_id, row in sorted(rows.items(), key=lambda item: item[1].missing):
            if row.missing <= left:
                ready.append(row_id)
                left -= row.missing
            elif left:
                behind.append((row, left))
                left = 0
        return ready, behind

    def _first_pass(self, ready: Sequence[_Row], behind: Sequence[tuple[_Row, int]]) -> mx.array:
        """Compute the tokens that are known, and draw the first guess of every ready row."""
        pieces = [(row, row.missing) for row in ready] + list(behind)
        ids = [token for row, count in pieces for token in row.tokens[row.state.length :][:count]]
        counts = [count for _, count in pieces]
        ends = [end - 1 for end in accumulate(counts[: len(ready)])]
        logits = self._model.forward([row.state for row, _ in pieces], counts, mx.array(ids, dtype=mx.uint32), ends)
        return self._draw(ready, logits, 0) if ready else mx.array([], dtype=mx.uint32)

    def _draw(self, rows: Sequence[_Row], logits: mx.array, number: int) -> mx.array:
        """The guess of this number (from 0) of each row, lazily."""
        positions = [len(row.tokens) - row.prompt_tokens + number for row in rows]
        sampler = self._samplers.get([row.sampling for row in rows])
        return sampler(self._of_target(logits), positions, Context()).tokens

    def _of_target(self, logits: mx.array) -> mx.array:
        """As wide as the target's, so that both draw with the same noise; models pad one vocabulary differently."""
        missing = self._vocabulary - logits.shape[-1]
        if missing <= 0:
            return logits[:, : self._vocabulary]
        return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)

    def _noted(
        self, ready: Sequence[str], lengths: Mapping[str, int], passes: Sequence[mx.array]
    ) -> Iterator[list[int]]:
        """Each row's guesses, with a note of those that its state holds: all but the last."""
        by_pass: list[list[int]] = [drawn.tolist() for drawn in passes]  # type: ignore[misc]  # flat lists
        for index, row_id in enumerate(ready):
            guesses = [drawn[index] for drawn in by_pass[: lengths[row_id]]]
            self._rows[row_id].guesses = guesses[:-1]
            yield guesses

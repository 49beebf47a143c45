"""Draft tokens: proposers guess what a row says next, and these are the words about what came of it.

A step verifies each row's draft beside its next token in one forward pass. The target draws every position with that
position's own key and keeps a draft token only where it drew the same one, so speculation changes how fast a request
goes and never what it says. No MLX, no clock: what steps cost and what they accepted is told by the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .protocol import DraftMethod, Sampling

MAX_DRAFT = 16
"""Longest draft; longer ones gain nothing that the measured cost of a token leaves over."""


class Proposer(Protocol):
    """Guesses how one row goes on. It only hears of tokens that are final."""

    def extend(self, tokens: Iterable[int]) -> None:
        """These tokens were added to the row's sequence; the first call brings the prompt."""

    def propose(self, limit: int) -> list[int]:
        """Up to `limit` tokens that may come next; none when there is nothing to go by."""


class BatchProposer(Protocol):
    """Guesses how all rows go on at once, one token of each in a pass. Like a `Proposer`, it hears of final tokens."""

    @property
    def kv_nbytes(self) -> int:
        """What it remembers of the rows, in bytes."""

    def add(self, row_id: str, tokens: Sequence[int], sampling: Sampling, position: int) -> None:
        """A row with its sequence so far; the token after it has this output position."""

    def extend(self, row_id: str, tokens: Sequence[int]) -> None:
        """The row drew these tokens."""

    def remove(self, row_id: str) -> None:
        """The row has left."""

    def propose(self, lengths: Mapping[str, int]) -> dict[str, list[int]]:
        """A draft of the given length for each row that it is ready for."""


class PromptLookup:
    """What followed the last time the row ended as it ends now (n-gram lookup; Saxena 2023, "prompt lookup decoding").

    The longest of the endings of `max_ngram` down to `min_ngram` tokens that stood there before decides, its latest
    occurrence counts. A copy that reaches the end of the sequence goes on with itself, so that a text in which one
    phrase repeats is drafted to the limit. Each token costs a dictionary entry for each length, about 0.4 kB in all.
    """

    def __init__(self, max_ngram: int = 4, min_ngram: int = 2) -> None:
        self._lengths = range(max_ngram, min_ngram - 1, -1)
        self._tokens: list[int] = []
        self._next: dict[tuple[int, ...], int] = {}
        """Where the token after an n-gram stands. The sequence's own ending is not in here: nothing follows it yet."""

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            end = len(self._tokens)
            for length in self._lengths:
                if length <= end:
                    self._next[tuple(self._tokens[end - length :])] = end
            self._tokens.append(token)

    def propose(self, limit: int) -> list[int]:
        end = len(self._tokens)
        for length in self._lengths:
            start = self._next.get(tuple(self._tokens[end - length :])) if length <= end else None
            if start is not None:
                return [self._tokens[start + i % (end - start)] for i in range(limit)]
        return []


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that a row may say next, and who guessed them."""

    tokens: list[int]
    method: DraftMethod = DraftMethod.PROMPT_LOOKUP


NO_DRAFT = Draft([])


@dataclass(frozen=True, slots=True)
class Offer:
    """A row that decodes in the next step, and how many tokens its proposer has (or could make)."""

    row: str
    length: int
    method: DraftMethod = DraftMethod.PROMPT_LOOKUP


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one row's draft came to: `accepted` of `drafted` tokens."""

    row: str
    drafted: int
    accepted: int
    method: DraftMethod = DraftMethod.PROMPT_LOOKUP


@dataclass(frozen=True, slots=True)
class StepMeasure:
    """A finished step in which every row decoded: its verdicts, one a row, and its wall time without that of drafting.

    `passes` of a draft model took `pass_s` seconds each before it. Steps that also computed pieces of prompts tell
    nothing about drafts and are not measured.
    """

    verdicts: Sequence[Verdict]
    seconds: float
    passes: int = 0
    pass_s: float = 0.0


def common_prefix(draft: Sequence[int], drawn: Sequence[int]) -> int:
    """How many tokens of a draft are the ones that were drawn, from its start."""
    pairs = enumerate(zip(draft, drawn, strict=False))
    return next((i for i, (guess, token) in pairs if guess != token), min(len(draft), len(drawn)))

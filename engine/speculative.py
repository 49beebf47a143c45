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


SHORTEST = 2
"""A lookup goes by at least so many tokens."""

ANCHOR = 4
"""Tokens that places must have in common before they are compared."""

LONGEST = 64
MAX_PLACES = 64
"""How far back places are compared, and how many of them: what a lookup may cost, about 0.2 ms at worst."""


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
    """What followed where the row stood before as it stands now (n-gram lookup; Saxena 2023, "prompt lookup decoding").

    Of the places that end alike, the one that is alike for longest, looking backwards, decides; among equals the
    latest. Code says the same few tokens in many places, and only a long look back tells which one is copied. A copy
    that reaches the end of the sequence goes on with itself, so that a text in which one phrase repeats is drafted to
    the limit. Each token costs three dictionary entries and a number, about 0.4 kB in all.
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._next: dict[tuple[int, ...], int] = {}
        """Where the token after an n-gram stands. The sequence's own ending is not in here: nothing follows it yet."""
        self._earlier: list[int] = []
        """For each token, where one stands that follows the same `ANCHOR` tokens, the latest before it; 0 for none."""

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            end = len(self._tokens)
            self._earlier.append(self._next.get(self._ending(ANCHOR), 0))
            for length in range(SHORTEST, min(ANCHOR, end) + 1):
                self._next[self._ending(length)] = end
            self._tokens.append(token)

    def propose(self, limit: int) -> list[int]:
        end = len(self._tokens)
        for length in range(min(ANCHOR, end), SHORTEST - 1, -1):
            start = self._next.get(self._ending(length))
            if start is not None:
                source = self._most_alike(start) if length == ANCHOR else start
                return [self._tokens[source + i % (end - source)] for i in range(limit)]
        return []

    def _ending(self, length: int) -> tuple[int, ...]:
        return tuple(self._tokens[-length:])

    def _most_alike(self, latest: int) -> int:
        """Of the places that follow the last `ANCHOR` tokens, the one that they share most with."""
        best, longest, place = latest, 0, latest
        for _ in range(MAX_PLACES):
            length = self._alike(place)
            if length > longest:
                best, longest = place, length
            place = self._earlier[place]
            if longest == LONGEST or not place:
                break
        return best

    def _alike(self, place: int) -> int:
        """How many tokens before `place` are those at the end, `LONGEST` at most."""
        end, length = len(self._tokens), ANCHOR
        while length < min(place, LONGEST) and self._tokens[place - 1 - length] == self._tokens[end - 1 - length]:
            length += 1
        return length


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
    stacked: bool = False
    """Whether the row attends together with others, whom it would leave for a draft."""


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

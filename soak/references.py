"""Questions that come again and again through a run: a greedy answer must stay what it was at the first time.

A soak run's own conversations never come twice, so nobody could tell whether a token of them was lost. These can be
compared, whatever happened to the engine in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from .outcome import Outcome
from .texts import Parting, parting
from .workloads import Conversation, Message, Turn, Workload

REFERENCE = "reference"
AFTER_TURNS = 12
"""One of these comes whenever so many others have been asked."""
ANSWER_TOKENS = 64
_QUESTIONS = (
    "Write a story about a lighthouse.",
    "Explain to a child how bread is made.",
    "What should everybody know about honey bees?",
    "Describe a day at a railway station.",
)


@dataclass(frozen=True)
class WithReferences:
    """A workload with reference questions among its conversations."""

    workload: Workload

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def streams(self) -> int | None:
        return self.workload.streams

    def conversations(self) -> Iterator[Conversation]:
        turns, asked = AFTER_TURNS, 0
        for conversation in self.workload.conversations():
            if turns >= AFTER_TURNS:
                yield replace(_reference(asked % len(_QUESTIONS)), at=conversation.at)
                turns, asked = 0, asked + 1
            turns += len(conversation.turns)
            yield conversation


def _reference(which: int) -> Conversation:
    turn = Turn((Message("user", _QUESTIONS[which]),), ANSWER_TOKENS)
    return Conversation(REFERENCE, which, (turn,))


class References:
    """The first whole answer to each question, and what later ones are against it."""

    def __init__(self, first: Mapping[int, str]) -> None:
        """`first` is what earlier processes of the run got."""
        self._first = dict(first)

    def is_first(self, outcome: Outcome) -> bool:
        """Keep the answer if it is the first one to its question."""
        if outcome.workload != REFERENCE or not outcome.ok or outcome.conversation in self._first:
            return False
        self._first[outcome.conversation] = outcome.text
        return True

    def compared(self, outcome: Outcome) -> tuple[bool, Parting | None]:
        """Whether it can be compared, and how the texts part."""
        if outcome.workload != REFERENCE or not outcome.ok:
            return False, None
        return True, parting(outcome.text, self._first[outcome.conversation])

"""Questions that come again and again through a run: a greedy answer must stay what it was at the first time.

A soak run's own conversations never come twice, so nobody could tell whether a token of them was lost. These can be
compared, whatever happened to the engine in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .outcome import Outcome
from .texts import Parting, parting
from .workloads import Conversation, Message, Turn, Workload

REFERENCE = "reference"
EACH = 6
"""One of these comes before so many others."""
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
        for number, conversation in enumerate(self.workload.conversations()):
            if number % EACH == 0:
                yield replace(_reference(number // EACH % len(_QUESTIONS)), at=conversation.at)
            yield conversation


def _reference(which: int) -> Conversation:
    turn = Turn((Message("user", _QUESTIONS[which]),), ANSWER_TOKENS)
    return Conversation(REFERENCE, which, (turn,))


class References:
    """The first whole answer to each question, and what later ones are against it."""

    def __init__(self) -> None:
        self._first: dict[int, str] = {}

    def compare(self, outcome: Outcome) -> tuple[bool, Parting | None]:
        """Whether it could be compared, and how the texts part."""
        if outcome.workload != REFERENCE or not outcome.ok:
            return False, None
        if outcome.conversation not in self._first:
            self._first[outcome.conversation] = outcome.text
            return False, None
        return True, parting(outcome.text, self._first[outcome.conversation])

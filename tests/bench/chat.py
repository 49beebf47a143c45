"""Questions to a server, all at once, by the load client: how many tokens a second the answers make together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.soak.load import drive
from stoker.soak.outcome import Outcome
from stoker.soak.target import Target
from stoker.soak.workloads import Conversation, Message, Turn


@dataclass(frozen=True)
class Questions:
    """Each a conversation of its own, answered greedily."""

    asked: Sequence[str]
    max_tokens: int
    name: str = "questions"

    @property
    def streams(self) -> int:
        return len(self.asked)

    def conversations(self) -> Iterator[Conversation]:
        for number, text in enumerate(self.asked):
            yield Conversation(self.name, number, (Turn((Message("user", text),), self.max_tokens),))


async def tokens_per_second(target: Target, questions: Sequence[str], max_tokens: int) -> float:
    """From the first request to the last byte."""
    outcomes: list[Outcome] = []
    started = time.perf_counter()
    await drive(target, Questions(questions, max_tokens), on_outcome=outcomes.append)
    seconds = time.perf_counter() - started
    assert all(outcome.ok for outcome in outcomes), [outcome.error for outcome in outcomes]
    return sum(outcome.completion_tokens or 0 for outcome in outcomes) / seconds

"""Conversations with a server, all at once, by the load client: how many tokens a second the answers make together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.soak.load import drive
from stoker.soak.outcome import Outcome
from stoker.soak.target import Target
from stoker.soak.workloads import Conversation, Message, Turn


@dataclass(frozen=True)
class AllAtOnce:
    """As many conversations at once as there are."""

    asked: Sequence[Conversation]
    name: str = "all at once"

    @property
    def streams(self) -> int:
        return len(self.asked)

    def conversations(self) -> Iterator[Conversation]:
        return iter(self.asked)


def questions(texts: Sequence[str], max_tokens: int, *, temperature: float = 0.0) -> list[Conversation]:
    """Each a conversation of its own."""
    return [
        Conversation("questions", number, (Turn((Message("user", text),), max_tokens),), None, temperature, number)
        for number, text in enumerate(texts)
    ]


async def tokens_per_second(target: Target, asked: Sequence[Conversation]) -> float:
    """From the first request to the last byte."""
    outcomes: list[Outcome] = []
    started = time.perf_counter()
    await drive(target, AllAtOnce(asked), on_outcome=outcomes.append)
    seconds = time.perf_counter() - started
    assert all(outcome.ok for outcome in outcomes), [outcome.error for outcome in outcomes]
    return sum(outcome.completion_tokens or 0 for outcome in outcomes) / seconds

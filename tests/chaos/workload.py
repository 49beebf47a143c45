"""What chaos clients ask: short and long prompts and answers, greedy and sampled, streamed and whole; by seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.e2e.chatting import chat_body

TOPICS = ("the sea", "bread", "railways", "honey bees", "glass", "the moon", "tea", "maps", "a lighthouse", "copper")
FORMS = ("Write a long story about {}.", "Explain {} to a child.", "List facts about {}.", "What is {} good for?")
CONTEXT = "Notes about {}: people have known it for a long time and keep finding out more. "


@dataclass(frozen=True)
class Request:
    """One request; two that are equal have the same answer."""

    content: str
    temperature: float
    seed: int
    max_tokens: int
    stream: bool

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def body(self) -> dict[str, Any]:
        options = {"stream": True, "stream_options": {"include_usage": True}} if self.stream else {}
        return chat_body(
            self.content, temperature=self.temperature, seed=self.seed, max_tokens=self.max_tokens, **options
        )


def requests(seed: int, count: int) -> list[Request]:
    draw = random.Random(seed)
    return [_request(draw) for _ in range(count)]


def _request(draw: random.Random) -> Request:
    topic = draw.choice(TOPICS)
    return Request(
        content=CONTEXT.format(topic) * draw.choice((0, 0, 1, 4)) + draw.choice(FORMS).format(topic),
        temperature=draw.choice((0.0, 0.0, 0.7, 1.0)),
        seed=draw.randrange(2**31),
        max_tokens=draw.randint(20, 120),
        stream=draw.random() < 0.7,
    )

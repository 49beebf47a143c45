"""The words for what is asked: a workload is conversations, a conversation is turns, a turn is one request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message. What a tool answered is a user's text here: models without tools are measured too."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: these messages are added to the conversation, and what the server answers is added after them."""

    adds: tuple[Message, ...]
    max_tokens: int
    pause_s: float = 0.0
    """From the end of the answer before to this request."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Requests that follow each other, each with all that was said before.

    `at` is when it should begin in seconds of the run; None is as soon as there is a place for it.
    """

    workload: str
    number: int
    turns: tuple[Turn, ...]
    at: float | None = None
    temperature: float = 0.0
    seed: int = 0
    """For draws that can be repeated, where the target is asked for them."""


class Workload(Protocol):
    """Conversations in the order in which they begin."""

    @property
    def name(self) -> str: ...

    @property
    def streams(self) -> int | None:
        """Closed loop: so many conversations at once. None is open: each begins at its time, however many run."""

    def conversations(self) -> Iterator[Conversation]:
        """From the first one on, the same each time it is called; without an end unless it is a recorded trace."""
        ...

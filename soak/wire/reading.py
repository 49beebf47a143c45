"""What a client has read of one answer so far, whatever the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from ..target import Target
from ..workloads.conversation import Conversation, Message


class Malformed(Exception):
    """What came is not what the API says."""


@dataclass(slots=True)
class Reading:
    """One answer."""

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    """In OpenAI's words. None: the answer has not ended."""
    error: str | None = None
    """The server said in the stream that it cannot go on."""
    resumed: bool = False


class Wire(Protocol):
    """One API."""

    path: str

    def headers(self, target: Target) -> dict[str, str]:
        """Of every request."""

    def body(self, target: Target, asked: Conversation, messages: list[Message], max_tokens: int) -> dict[str, Any]:
        """A request for a stream."""

    def take(self, reading: Reading, data: bytes) -> bool:
        """One event's data; returns whether something of the answer came with it. Raises `Malformed`."""

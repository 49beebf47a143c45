"""A conversation in the service's own words, whichever API it came through and whichever template renders it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class ToolCall:
    """A model's wish to have a tool run; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Tool:
    """What a model may call; `parameters` is a JSON schema."""

    name: str
    description: str | None
    parameters: Mapping[str, Any]

    def as_function(self) -> dict[str, Any]:
        """The form that chat templates and mlx-lm's parsers know."""
        described = {} if self.description is None else {"description": self.description}
        return {"type": "function", "function": {"name": self.name, **described, "parameters": dict(self.parameters)}}


@dataclass(frozen=True)
class Turn:
    """One message. `calls` are an assistant's; `call_id` is the call that a tool answers."""

    role: Role
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Conversation:
    """What a model is asked to go on with. `thinking` and `effort` are for templates that know them; None
    leaves them their own."""

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    thinking: bool | None = None
    effort: str | None = None

"""The answers of the Anthropic API as schemas, for its description; `shapes` and `errors` write them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class ThinkingTokens(BaseModel):
    thinking_tokens: int


class Usage(BaseModel):
    """Tokens of a request; what was read from the cache is no part of the input."""

    input_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens


class ContentBlock(BaseModel):
    type: Literal["text", "thinking", "tool_use"]
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class Message(BaseModel):
    """The whole answer of `/v1/messages`."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]
    stop_sequence: str | None
    usage: Usage


class TokenCount(BaseModel):
    input_tokens: int


class ErrorDetails(BaseModel):
    """What is wrong; the message names the field."""

    type: str
    message: str


class Error(BaseModel):
    type: Literal["error"]
    error: ErrorDetails
    request_id: str

"""What answers of the OpenAI API have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ... import __version__
from ..answering import Usage
from ..conversation import ToolCall
from ..errors import ServiceError
from ..generation import Scored
from ..segments import Reasoning, Segment, Text
from ..text import TextModel

FINGERPRINT = f"stoker-{__version__}"
DONE = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def error_event(error: ServiceError) -> bytes:
    """How a stream that has begun says that it cannot go on."""
    return event(error.body())


def usage(tokens: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.prompt_tokens,
        "completion_tokens": tokens.completion_tokens,
        "total_tokens": tokens.prompt_tokens + tokens.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": tokens.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning_tokens},
    }


def text_of(segments: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in segments if isinstance(segment, Text))


def reasoning_of(segments: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in segments if isinstance(segment, Reasoning))


def calls_of(segments: Sequence[Segment]) -> list[ToolCall]:
    return [segment for segment in segments if isinstance(segment, ToolCall)]


def logprob(model: TextModel, token: int, value: float) -> dict[str, Any]:
    """A token as it is written, and its natural log probability."""
    text = model.text_of(token)
    return {"token": text, "logprob": value, "bytes": list(text.encode())}


def logprobs(model: TextModel, scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """The `content` of a chat choice's `logprobs`."""
    return [
        logprob(model, token.id, token.scores.logprob)
        | {"top_logprobs": [logprob(model, other, value) for other, value in token.scores.top]}
        for token in scored
    ]

"""The OpenAI API's shapes: what of a request goes to the engine, and how an answer is written."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass
from typing import Any

import orjson

from .. import __version__
from ..engine.protocol import FinishReason, Sampling
from .schemas import ChatCompletionRequest

SEED_MASK = 2**63 - 1
DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keep-alive\n\n"


def completion_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


def sampling(request: ChatCompletionRequest) -> Sampling:
    """OpenAI's defaults where nothing is said. Without a seed a random one, so that a resume goes on exactly."""
    return Sampling(
        seed=secrets.randbits(63) if request.seed is None else request.seed & SEED_MASK,
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        top_k=request.top_k or 0,
        min_p=request.min_p or 0.0,
    )


def usage(prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def model_card(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "stoker"}


@dataclass(frozen=True)
class Answer:
    """What all parts of one answer have in common. `created` is Unix time."""

    id: str
    model: str
    created: int

    def completion(self, text: str, finish: FinishReason, usage: dict[str, Any]) -> bytes:
        """The whole answer at once."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish.value}
        return orjson.dumps(self.envelope("chat.completion") | {"choices": [choice], "usage": usage})

    def envelope(self, kind: str) -> dict[str, Any]:
        """The fields that the whole answer and every chunk of it share."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"stoker-{__version__}",
        }


class Chunks:
    """The server-sent events of one streamed answer.

    With `include_usage` every chunk has a `usage`, null in all but the last, as the API's reference has it.
    """

    def __init__(self, answer: Answer, include_usage: bool) -> None:
        self._head = orjson.dumps(answer.envelope("chat.completion.chunk"))[:-1]
        self._tail = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        # Almost every chunk differs in its text alone, so the rest of it is made once.
        self._before_text = b"data: " + self._head + b',"choices":[{"index":0,"delta":{"content":'
        self._after_text = b'},"logprobs":null,"finish_reason":null}]' + self._tail

    def text(self, text: str) -> bytes:
        return self._before_text + orjson.dumps(text) + self._after_text

    def role(self) -> bytes:
        return self._chunk({"role": "assistant", "content": "", "refusal": None}, None)

    def finish(self, reason: FinishReason) -> bytes:
        return self._chunk({}, reason)

    def usage(self, usage: dict[str, Any]) -> bytes:
        return b"data: " + self._head + b',"choices":[],"usage":' + orjson.dumps(usage) + b"}\n\n"

    def _chunk(self, delta: dict[str, Any], finish: FinishReason | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + self._head + b',"choices":' + orjson.dumps([choice]) + self._tail


def error_event(body: dict[str, Any]) -> bytes:
    """How a stream that has begun says that it cannot go on."""
    return b"data: " + orjson.dumps(body) + b"\n\n"

"""How a message is written: whole, and as events."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from ...engine.protocol import FinishReason
from ..answering import Outcome, Usage
from ..conversation import ToolCall
from ..errors import ServiceError
from ..generation import Scored
from ..relay import Answer
from ..segments import Reasoning, Segment, Text
from . import errors

SIGNATURE = "stoker"
"""Clients keep only thinking that is signed; here nobody checks by whom."""


def message(model: str, answer: Answer, tokens: Usage, *, show_thinking: bool) -> dict[str, Any]:
    """The whole answer at once."""
    shown = (_block(segment) for segment in answer.segments if show_thinking or not isinstance(segment, Reasoning))
    return _message(model, tokens) | {"content": list(shown), **_ending(answer.outcome)}


class Events:
    """The events of one streamed answer; the `Writer` of messages."""

    def __init__(self, model: str, usage: Callable[[], Usage], request_id: str, *, show_thinking: bool) -> None:
        self.id = _message_id()
        self._model = model
        self._usage = usage
        self._request_id = request_id
        self._show_thinking = show_thinking
        self._open: type[Segment] | None = None
        self._blocks = 0
        self._ending: dict[str, Any] = {}

    def begin(self) -> bytes:
        start = {"type": "message_start", "message": _message(self._model, self._usage()) | {"id": self.id}}
        return _event(start) + self.waiting()

    def more(self, number: int, segments: Sequence[Segment], scored: Sequence[Scored]) -> bytes:
        return b"".join(
            self._segment(segment) for segment in segments if self._show_thinking or not isinstance(segment, Reasoning)
        )

    def end(self, number: int, outcome: Outcome) -> bytes:
        self._ending = _ending(outcome)
        return self._close()

    def complete(self) -> bytes:
        delta = {"type": "message_delta", "delta": self._ending, "usage": _usage(self._usage())}
        return _event(delta) + _event({"type": "message_stop"})

    def waiting(self) -> bytes:
        return _event({"type": "ping"})

    def broken(self, error: ServiceError) -> bytes:
        return _event(errors.body(error, self._request_id))

    def _segment(self, segment: Segment) -> bytes:
        match segment:
            case Text(text):
                return self._within(Text, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})
            case Reasoning(text):
                empty = {"type": "thinking", "thinking": "", "signature": ""}
                return self._within(Reasoning, empty, {"type": "thinking_delta", "thinking": text})
            case ToolCall(id=call_id, name=name, arguments=arguments):
                begun: dict[str, Any] = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
                whole = {"type": "input_json_delta", "partial_json": arguments}
                return self._close() + self._within(ToolCall, begun, whole) + self._close()

    def _within(self, kind: type[Segment], empty: dict[str, Any], delta: dict[str, Any]) -> bytes:
        """A delta in the block that is open, if it is of this kind, or in a new one."""
        opened = b""
        if self._open is not kind:
            opened = self._close()
            self._open = kind
            opened += _event({"type": "content_block_start", "index": self._blocks, "content_block": empty})
        return opened + self._delta(delta)

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        signed = self._delta({"type": "signature_delta", "signature": SIGNATURE}) if self._open is Reasoning else b""
        closed = _event({"type": "content_block_stop", "index": self._blocks})
        self._open = None
        self._blocks += 1
        return signed + closed

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event({"type": "content_block_delta", "index": self._blocks, "delta": delta})


def _message_id() -> str:
    return f"msg_{uuid.uuid4().hex}"


def _message(model: str, tokens: Usage) -> dict[str, Any]:
    """A message that has not been written yet."""
    return {
        "id": _message_id(),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(tokens),
    }


def _block(segment: Segment) -> dict[str, Any]:
    match segment:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(text):
            return {"type": "thinking", "thinking": text, "signature": SIGNATURE}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": orjson.Fragment(arguments)}


def _ending(outcome: Outcome) -> dict[str, Any]:
    if outcome.finish is FinishReason.LENGTH:
        reason = "max_tokens"
    elif outcome.stopped_by is not None:
        reason = "stop_sequence"
    else:
        reason = "tool_use" if outcome.called else "end_turn"
    return {"stop_reason": reason, "stop_sequence": outcome.stopped_by}


def _usage(tokens: Usage) -> dict[str, Any]:
    """In this API what was read from the cache is no part of the input tokens. Everything is cached, and nothing is
    the dearer for it, so no token counts as written to the cache."""
    return {
        "input_tokens": tokens.prompt_tokens - tokens.cached_tokens,
        "cache_read_input_tokens": tokens.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": tokens.completion_tokens,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning_tokens},
    }


def _event(value: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (value["type"].encode(), orjson.dumps(value))

"""How a response is written: whole, and as events."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from ...engine.protocol import FinishReason
from ..answering import Outcome, Usage
from ..conversation import ToolCall
from ..errors import ServiceError
from ..generation import Scored
from ..relay import KEEPALIVE
from ..segments import Reasoning, Segment, Text
from .responses_request import ResponsesRequest


class Head:
    """What the response says in all its states: who it is, and what was asked."""

    def __init__(self, model: str, asked: ResponsesRequest) -> None:
        self.id = f"resp_{uuid.uuid4().hex}"
        self._created_at = int(time.time())
        self._model = model
        self._asked = asked.model_dump(by_alias=True, exclude_none=True)

    def response(self, status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        asked = self._asked
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created_at,
            "status": status,
            "model": self._model,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "instructions": asked.get("instructions"),
            "max_output_tokens": asked.get("max_output_tokens"),
            "metadata": asked.get("metadata", {}),
            "parallel_tool_calls": asked.get("parallel_tool_calls", True),
            "previous_response_id": asked.get("previous_response_id"),
            "reasoning": {"effort": asked.get("reasoning", {}).get("effort"), "summary": None},
            "store": asked.get("store", True),
            "temperature": asked.get("temperature"),
            "text": _as_given(asked.get("text", {"format": {"type": "text"}})),
            "tool_choice": asked.get("tool_choice", "auto"),
            "tools": _as_given(asked.get("tools", [])),
            "top_p": asked.get("top_p"),
            "truncation": asked.get("truncation", "disabled"),
            "usage": None,
            **more,
        }

    def ended(self, output: list[dict[str, Any]], outcome: Outcome, tokens: Usage) -> dict[str, Any]:
        """The response once it is complete, or was cut."""
        if outcome.finish is FinishReason.LENGTH:
            cut = {"reason": "max_output_tokens"}
            return self.response("incomplete", output, incomplete_details=cut, usage=_usage(tokens))
        return self.response("completed", output, usage=_usage(tokens))


def _as_given(value: Any) -> orjson.Fragment:
    """Schemas may hold integers of any length, which orjson would not write."""
    return orjson.Fragment(json.dumps(value))


def items(segments: Sequence[Segment]) -> list[dict[str, Any]]:
    """The output of a whole answer."""
    return [item(segment, _item_id(segment), "completed") for segment in segments]


def item(segment: Segment, item_id: str, status: str) -> dict[str, Any]:
    match segment:
        case Text(text):
            content = [_text_part(text)] if text else []
            return {"id": item_id, "type": "message", "role": "assistant", "status": status, "content": content}
        case Reasoning(text):
            content = [_reasoning_part(text)] if text else []
            return {"id": item_id, "type": "reasoning", "status": status, "summary": [], "content": content}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            call = {"call_id": call_id, "name": name, "arguments": arguments}
            return {"id": item_id, "type": "function_call", "status": status, **call}


class Events:
    """The events of one streamed response; the `Writer` of responses. `on_end` is told of the response and
    all segments at the end."""

    def __init__(
        self, head: Head, usage: Callable[[], Usage], on_end: Callable[[dict[str, Any], list[Segment]], None]
    ) -> None:
        self.id = head.id
        self._head = head
        self._usage = usage
        self._on_end = on_end
        self._sequence = 0
        self._output: list[dict[str, Any]] = []
        self._segments: list[Segment] = []
        self._open: tuple[Segment, str] | None = None
        self._outcome: Outcome | None = None

    def begin(self) -> bytes:
        response = self._head.response("in_progress", [])
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def more(self, number: int, segments: Sequence[Segment], scored: Sequence[Scored]) -> bytes:
        return b"".join(self._segment(segment) for segment in segments)

    def end(self, number: int, outcome: Outcome) -> bytes:
        self._outcome = outcome
        return self._close()

    def complete(self) -> bytes:
        assert self._outcome is not None, "its only answer has ended"
        response = self._head.ended(self._output, self._outcome, self._usage())
        self._on_end(response, self._segments)
        return self._event(f"response.{response['status']}", response=response)

    def waiting(self) -> bytes:
        return KEEPALIVE

    def broken(self, error: ServiceError) -> bytes:
        told = {"code": "server_error", "message": str(error)}
        return self._event("response.failed", response=self._head.response("failed", self._output, error=told))

    def _segment(self, segment: Segment) -> bytes:
        opened = b""
        if self._open is None or type(self._open[0]) is not type(segment) or isinstance(segment, ToolCall):
            opened = self._close() + self._begin(segment)
        assert self._open is not None, "just opened"
        so_far, item_id = self._open
        match so_far, segment:
            case Text(before), Text(text):
                self._open = (Text(before + text), item_id)
                return opened + self._within("response.output_text.delta", delta=text, logprobs=[])
            case Reasoning(before), Reasoning(text):
                self._open = (Reasoning(before + text), item_id)
                return opened + self._within("response.reasoning_text.delta", delta=text)
            case _, ToolCall(arguments=arguments):
                self._open = (segment, item_id)
                return opened + self._in_item("response.function_call_arguments.delta", delta=arguments)
        raise AssertionError("a segment is one of three")

    def _begin(self, segment: Segment) -> bytes:
        empty = _empty(segment)
        self._open = (empty, _item_id(segment))
        added = item(empty, self._open[1], "in_progress")
        begun = self._event("response.output_item.added", output_index=len(self._output), item=added)
        if isinstance(segment, ToolCall):
            return begun
        return begun + self._within("response.content_part.added", part=_part(empty))

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        segment, item_id = self._open
        match segment:
            case Text(text):
                done = self._within("response.output_text.done", text=text, logprobs=[])
                done += self._within("response.content_part.done", part=_part(segment))
            case Reasoning(text):
                done = self._within("response.reasoning_text.done", text=text)
                done += self._within("response.content_part.done", part=_part(segment))
            case ToolCall(name=name, arguments=arguments):
                done = self._in_item("response.function_call_arguments.done", name=name, arguments=arguments)
        whole = item(segment, item_id, "completed")
        done += self._event("response.output_item.done", output_index=len(self._output), item=whole)
        self._open = None
        self._output.append(whole)
        self._segments.append(segment)
        return done

    def _within(self, kind: str, **more: Any) -> bytes:
        return self._in_item(kind, content_index=0, **more)

    def _in_item(self, kind: str, **more: Any) -> bytes:
        assert self._open is not None, "within an item"
        return self._event(kind, item_id=self._open[1], output_index=len(self._output), **more)

    def _event(self, kind: str, **more: Any) -> bytes:
        value = {"type": kind, "sequence_number": self._sequence, **more}
        self._sequence += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(value))


def _empty(segment: Segment) -> Segment:
    match segment:
        case Text():
            return Text("")
        case Reasoning():
            return Reasoning("")
        case ToolCall(id=call_id, name=name):
            return ToolCall(call_id, name, "")


def _item_id(segment: Segment) -> str:
    prefix = {Text: "msg", Reasoning: "rs", ToolCall: "fc"}[type(segment)]
    return f"{prefix}_{uuid.uuid4().hex}"


def _part(segment: Text | Reasoning | ToolCall) -> dict[str, Any]:
    assert not isinstance(segment, ToolCall), "calls have no parts"
    return _text_part(segment.text) if isinstance(segment, Text) else _reasoning_part(segment.text)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _reasoning_part(text: str) -> dict[str, Any]:
    return {"type": "reasoning_text", "text": text}


def _usage(tokens: Usage) -> dict[str, Any]:
    return {
        "input_tokens": tokens.prompt_tokens,
        "input_tokens_details": {"cached_tokens": tokens.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": tokens.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning_tokens},
        "total_tokens": tokens.prompt_tokens + tokens.completion_tokens,
    }

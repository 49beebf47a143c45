"""How a chat completion is written: whole, and as chunks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ...engine.protocol import FinishReason
from ..answering import Outcome, Usage
from ..conversation import ToolCall
from ..errors import ServiceError
from ..generation import Scored
from ..relay import KEEPALIVE, Answer
from ..segments import Reasoning, Segment, Text
from ..text import TextModel
from .shapes import DONE, FINGERPRINT, calls_of, error_event, logprobs, reasoning_of, text_of, usage


@dataclass(frozen=True)
class Head:
    """What all parts of one answer have in common. `created` is Unix time."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def envelope(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }


def completion(head: Head, model: TextModel, answers: Sequence[Answer], tokens: Usage) -> dict[str, Any]:
    """The whole answer at once."""
    choices = [_choice(model, number, answer) for number, answer in enumerate(answers)]
    return head.envelope("chat.completion") | {"choices": choices, "usage": usage(tokens)}


class Chunks:
    """The events of one streamed answer; the `Writer` of chat completions.

    With usage asked for, every chunk has a `usage`, null in all but the last, as the API's reference has it.
    """

    def __init__(self, head: Head, model: TextModel, count: int, usage_at_end: Callable[[], Usage] | None) -> None:
        self.id = head.id
        self._head = orjson.dumps(head.envelope("chat.completion.chunk"))[:-1]
        self._tail = b',"usage":null}\n\n' if usage_at_end is not None else b"}\n\n"
        self._model = model
        self._calls = [0] * count
        self._usage = usage_at_end
        # Almost every chunk differs in its text alone, so the rest of it is made once.
        self._before = [
            b"data: " + self._head + b',"choices":[{"index":%d,"delta":{"content":' % number for number in range(count)
        ]
        self._after = b'},"logprobs":null,"finish_reason":null}]' + self._tail

    def begin(self) -> bytes:
        role = {"role": "assistant", "content": "", "refusal": None}
        return b"".join(self._chunk(number, role) for number in range(len(self._calls)))

    def more(self, number: int, segments: Sequence[Segment], scored: Sequence[Scored]) -> bytes:
        scores = self._chunk(number, {}, scored=scored) if scored else b""
        return scores + b"".join(self._segment(number, segment) for segment in segments)

    def end(self, number: int, outcome: Outcome) -> bytes:
        return self._chunk(number, {}, finish=finish_reason(outcome))

    def complete(self) -> bytes:
        if self._usage is None:
            return DONE
        last = b"data: " + self._head + b',"choices":[],"usage":' + orjson.dumps(usage(self._usage())) + b"}\n\n"
        return last + DONE

    def waiting(self) -> bytes:
        return KEEPALIVE

    def broken(self, error: ServiceError) -> bytes:
        return error_event(error)

    def _segment(self, number: int, segment: Segment) -> bytes:
        match segment:
            case Text(text):
                return self._before[number] + orjson.dumps(text) + self._after
            case Reasoning(text):
                return self._chunk(number, {"reasoning_content": text})
            case ToolCall():
                return b"".join(self._chunk(number, {"tool_calls": [part]}) for part in self._call(number, segment))

    def _call(self, number: int, call: ToolCall) -> Iterator[dict[str, Any]]:
        """The name first, then the arguments: what clients that put calls together expect."""
        index = self._calls[number]
        self._calls[number] += 1
        yield {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield {"index": index, "function": {"arguments": call.arguments}}

    def _chunk(
        self, number: int, delta: dict[str, Any], finish: str | None = None, scored: Sequence[Scored] = ()
    ) -> bytes:
        scores = {"content": logprobs(self._model, scored), "refusal": None} if scored else None
        choice = {"index": number, "delta": delta, "logprobs": scores, "finish_reason": finish}
        return b"data: " + self._head + b',"choices":' + orjson.dumps([choice]) + self._tail


def finish_reason(outcome: Outcome) -> str:
    """An answer that was cut says so, whatever calls it holds: one more may be missing."""
    return "tool_calls" if outcome.called and outcome.finish is FinishReason.STOP else outcome.finish.value


def _choice(model: TextModel, number: int, answer: Answer) -> dict[str, Any]:
    text, reasoning, calls = text_of(answer.segments), reasoning_of(answer.segments), calls_of(answer.segments)
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    scores = {"content": logprobs(model, answer.scored), "refusal": None} if answer.scored else None
    return {"index": number, "message": message, "logprobs": scores, "finish_reason": finish_reason(answer.outcome)}

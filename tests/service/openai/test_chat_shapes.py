"""How chat completions are written."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import FinishReason, TokenLogprob
from stoker.service.answering import Outcome, Usage
from stoker.service.byte_text import ByteText
from stoker.service.conversation import ToolCall
from stoker.service.generation import Scored
from stoker.service.openai.chat_shapes import Chunks, Head, completion
from stoker.service.relay import Answer
from stoker.service.segments import Reasoning, Text

HEAD = Head("tiny", "chatcmpl-1", 1_700_000_000)
USAGE = Usage(prompt_tokens=3, completion_tokens=4, cached_tokens=2, reasoning_tokens=1)
CALL = ToolCall("call_1", "look", '{"at": "x"}')
SCORED = Scored(65, TokenLogprob(-0.5, [(65, -0.5), (66, -1.5)]))


def chunks(usage: bool = False) -> Chunks:
    return Chunks(HEAD, ByteText(), 1, (lambda: USAGE) if usage else None)


def parsed(events: bytes) -> list[dict[str, Any]]:
    *lines, end = events.split(b"\n\n")
    assert end == b""
    return [orjson.loads(line.removeprefix(b"data: ")) for line in lines if line != b"data: [DONE]"]


def outcome(finish: FinishReason, *, called: bool = False) -> Outcome:
    return Outcome(finish, called, None)


@given(st.text(), st.booleans())
def test_any_text_is_one_well_formed_event(text: str, usage: bool) -> None:
    (chunk,) = parsed(chunks(usage).more(0, [Text(text)], []))
    assert chunk["choices"] == [{"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}]
    assert (chunk["id"], chunk["object"], chunk["model"]) == ("chatcmpl-1", "chat.completion.chunk", "tiny")
    assert ("usage" in chunk) == usage


def test_only_the_last_chunk_has_the_usage_and_no_choice() -> None:
    (chunk,) = parsed(chunks(usage=True).complete())
    assert chunk["choices"] == []
    assert chunk["usage"]["total_tokens"] == 7
    assert chunk["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert chunk["usage"]["completion_tokens_details"] == {"reasoning_tokens": 1}


def test_reasoning_and_calls_have_deltas_of_their_own() -> None:
    deltas = [event["choices"][0]["delta"] for event in parsed(chunks().more(0, [Reasoning("Hm."), CALL, CALL], []))]
    assert deltas[0] == {"reasoning_content": "Hm."}
    named = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    assert deltas[1] == {"tool_calls": [named]}
    assert deltas[2] == {"tool_calls": [{"index": 0, "function": {"arguments": '{"at": "x"}'}}]}
    assert deltas[3]["tool_calls"][0]["index"] == 1


def test_an_answer_that_was_cut_says_so_even_if_it_called() -> None:
    ends = [
        outcome(FinishReason.STOP, called=True),
        outcome(FinishReason.LENGTH, called=True),
        outcome(FinishReason.STOP),
    ]
    reasons = [parsed(chunks().end(0, end))[0]["choices"][0]["finish_reason"] for end in ends]
    assert reasons == ["tool_calls", "length", "stop"]


def test_log_probabilities_name_their_tokens() -> None:
    (chunk,) = parsed(chunks().more(0, [], [SCORED]))
    (entry,) = chunk["choices"][0]["logprobs"]["content"]
    assert (entry["token"], entry["bytes"], entry["logprob"]) == ("A", [65], -0.5)
    assert [other["token"] for other in entry["top_logprobs"]] == ["A", "B"]


def test_a_whole_answer_keeps_its_parts_apart() -> None:
    answer = Answer(outcome(FinishReason.STOP, called=True), [Reasoning("Hm."), CALL], [SCORED])
    choice = completion(HEAD, ByteText(), [answer], USAGE)["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["reasoning_content"] == "Hm."
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "x"}'}

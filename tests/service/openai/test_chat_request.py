"""Requests: what is understood, and how what is not is named."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from stoker.service.conversation import Conversation, Tool, ToolCall, Turn
from stoker.service.errors import InvalidRequest, InvalidValue, MalformedJson, UnknownParameter, UnsupportedParameter
from stoker.service.openai.chat_request import ChatCompletionRequest
from stoker.service.schemas import parse as parse_body

MESSAGES = [{"role": "user", "content": "Hello"}]


def parse(**more: Any) -> ChatCompletionRequest:
    return parse_body(ChatCompletionRequest, json.dumps({"model": "m", "messages": MESSAGES} | more).encode())


def refused(**more: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**more)
    return caught.value


def test_content_may_be_a_string_or_text_parts() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    request = parse(messages=[*MESSAGES, {"role": "user", "content": parts}])
    assert [turn.text for turn in request.conversation.turns] == ["Hello", "Hello"]


def test_an_assistant_may_have_said_nothing() -> None:
    request = parse(messages=[*MESSAGES, {"role": "assistant", "content": None, "tool_calls": None, "refusal": None}])
    assert request.messages[1].turn.text == ""
    assert refused(messages=[{"role": "user", "content": None}]).param == "messages.0"


def test_one_stop_string_is_a_list_of_one() -> None:
    assert parse(stop="END").stop == ["END"]
    assert parse(stop=["a", "b"]).stop == ["a", "b"]
    assert refused(stop=[str(number) for number in range(17)]).param == "stop"
    assert refused(stop="").param == "stop"
    assert refused(stop=["x", ""]).param == "stop.1"


def test_the_newer_name_of_the_output_bound_wins() -> None:
    assert parse(max_tokens=5).output_tokens == 5
    assert parse(max_tokens=5, max_completion_tokens=6).output_tokens == 6
    assert parse().output_tokens is None


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("temperature", 2.1, "temperature"),
        ("temperature", "1", "temperature"),
        ("top_p", 0, "top_p"),
        ("max_tokens", 0, "max_tokens"),
        ("max_tokens", 1.5, "max_tokens"),
        ("seed", 2**63, "seed"),
        ("stream", 1, "stream"),
        ("model", None, "model"),
        ("messages", [], "messages"),
        ("messages", [{"role": "user", "content": 3}], "messages.0.content"),
        ("messages", [{"role": "robot", "content": "x"}], "messages.0.role"),
        ("messages", [{"role": "user", "content": [{"type": "image_url"}]}], "messages.0.content"),
        ("stream_options", {"include_usage": "yes"}, "stream_options.include_usage"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(field: str, value: Any, param: str) -> None:
    error = refused(**{field: value})
    assert isinstance(error, InvalidValue)
    assert error.param == param
    assert param in str(error)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("audio", {"voice": "x"}),
        ("functions", [{"name": "f"}]),
        ("modalities", ["audio"]),
        ("web_search_options", {}),
        ("verbosity", "low"),
        ("store", True),
    ],
)
def test_what_is_not_served_is_refused_by_name(field: str, value: Any) -> None:
    error = refused(**{field: value})
    assert isinstance(error, UnsupportedParameter)
    assert error.param == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("functions", []),
        ("response_format", {"type": "text"}),
        ("n", 1),
        ("logprobs", False),
        ("presence_penalty", 0.0),
        ("reasoning_effort", None),
        ("user", "someone"),
        ("metadata", {"a": "b"}),
        ("store", False),
    ],
)
def test_what_changes_nothing_is_accepted(field: str, value: Any) -> None:
    assert parse(**{field: value}).model == "m"


def test_an_unknown_field_is_refused_wherever_it_is() -> None:
    for more, param in (
        ({"temprature": 1}, "temprature"),
        ({"messages": [{"role": "user", "content": "x", "mood": "good"}]}, "messages.0.mood"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "z": 1}]}]},
            "messages.0.content.0.z",
        ),
    ):
        error = refused(**more)
        assert isinstance(error, UnknownParameter)
        assert error.param == param


@pytest.mark.parametrize("body", [b"", b"{", b'{"model": NaN', b"\xff"])
def test_a_body_that_is_not_json_is_told_apart(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        parse_body(ChatCompletionRequest, body)


def test_not_a_number_is_no_temperature() -> None:
    with pytest.raises(InvalidValue):
        parse_body(
            ChatCompletionRequest, b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}'
        )


def test_tools_and_what_was_called_before_become_a_conversation() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
    request = parse(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Hm."},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        ],
        tools=[{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}, "strict": True}}],
        reasoning_effort="high",
    )
    assert request.conversation == Conversation(
        turns=(
            Turn("system", "Be brief."),
            Turn("user", "Look."),
            Turn("assistant", "", "Hm.", (ToolCall("c1", "look", '{"at": "x"}'),)),
            Turn("tool", "seen", call_id="c1"),
        ),
        tools=(Tool("look", None, {"type": "object"}),),
        thinking=True,
        effort="high",
    )


def test_no_effort_is_no_reasoning() -> None:
    conversation = parse(reasoning_effort="none").conversation
    assert (conversation.thinking, conversation.effort) == (False, None)
    assert parse(chat_template_kwargs={"enable_thinking": False}).conversation.thinking is False


def test_a_bias_is_by_token_id() -> None:
    assert parse(logit_bias={"7": -100}).wishes.logit_bias == {7: -100}
    assert refused(logit_bias={"seven": 1}).param == "logit_bias.seven"


def test_every_parameter_of_the_official_library_is_known() -> None:
    known = {*ChatCompletionRequest.model_fields, *ChatCompletionRequest.harmless, *ChatCompletionRequest.refused}
    assert set(get_type_hints(CompletionCreateParamsStreaming)) <= known

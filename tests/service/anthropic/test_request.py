"""Requests to the Anthropic API: what is understood, and how what is not is named."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import pytest
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.message_create_params import MessageCreateParamsStreaming

from stoker.service.anthropic import errors
from stoker.service.anthropic.request import CountTokensRequest, MessagesRequest
from stoker.service.conversation import Conversation, Tool, ToolCall, Turn
from stoker.service.errors import (
    BodyTooLarge,
    ContextLengthExceeded,
    EngineUnavailable,
    Excess,
    InternalError,
    InvalidApiKey,
    InvalidRequest,
    InvalidValue,
    ModelNotFound,
    QueueFull,
    ServiceError,
)
from stoker.service.schemas import parse

USER = {"role": "user", "content": "Look."}


def request(**more: Any) -> MessagesRequest:
    body = {"model": "m", "max_tokens": 9, "messages": [USER]} | more
    return parse(MessagesRequest, json.dumps(body).encode())


def test_what_an_agent_sends_becomes_a_conversation() -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    used = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "x"}}
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "seen"}], **cached},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no such file", "is_error": True},
        {"type": "text", "text": "Go on."},
        {"type": "text", "text": "Please."},
    ]
    asked = request(
        system=[{"type": "text", "text": "One."}, {"type": "text", "text": "Two.", **cached}],
        messages=[
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "redacted_thinking", "data": "?"},
                    {"type": "text", "text": "Yes."},
                    used,
                ],
            },
            {"role": "user", "content": results},
        ],
        tools=[{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}, **cached}],
        thinking={"type": "enabled", "budget_tokens": 2048},
        metadata={"user_id": "somebody"},
    )
    assert asked.conversation == Conversation(
        turns=(
            Turn("system", "One.\n\nTwo."),
            Turn("user", "Look."),
            Turn("assistant", "Yes.", "Hm.", (ToolCall("toolu_1", "look", '{"at": "x"}'),)),
            Turn("tool", "seen", call_id="toolu_1"),
            Turn("tool", "Error: no such file", call_id="toolu_2"),
            Turn("user", "Go on.\n\nPlease."),
        ),
        tools=(Tool("look", "Looks.", {"type": "object"}),),
        thinking=True,
    )


def test_nobody_thinks_unless_asked_to() -> None:
    assert request().conversation.thinking is False
    assert request(thinking={"type": "disabled"}).conversation.thinking is False
    assert request(thinking={"type": "adaptive"}).shows_thinking
    assert not request(thinking={"type": "adaptive", "display": "omitted"}).shows_thinking


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 1.5}, "temperature"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"nonsense": 1}, "nonsense"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages.0.content"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0.input_schema"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice"),
        ({"messages": [USER, {"role": "assistant", "content": "The answer is"}]}, None),
    ],
)
def test_what_is_wrong_is_named_by_its_path(more: dict[str, Any], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        request(**more)
    assert caught.value.param == param


def test_an_image_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidValue, match="`image` is not served"):
        request(messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}])


@pytest.mark.parametrize(
    ("kind", "params"),
    [(MessagesRequest, MessageCreateParamsStreaming), (CountTokensRequest, MessageCountTokensParams)],
)
def test_every_parameter_of_the_official_library_is_known(kind: type[CountTokensRequest], params: type) -> None:
    assert set(get_type_hints(params)) <= {*kind.model_fields, *kind.harmless, *kind.refused}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidValue("x"), 400, "invalid_request_error"),
        (InvalidApiKey("x"), 401, "authentication_error"),
        (ModelNotFound("x"), 404, "not_found_error"),
        (BodyTooLarge("x"), 413, "request_too_large"),
        (QueueFull("x"), 529, "overloaded_error"),
        (EngineUnavailable("x"), 529, "overloaded_error"),
        (InternalError(), 500, "api_error"),
    ],
)
def test_errors_have_this_apis_status_and_type(error: ServiceError, status: int, kind: str) -> None:
    assert errors.status(error) == status
    body = errors.body(error, "req_1")
    assert (body["type"], body["error"]["type"], body["request_id"]) == ("error", kind, "req_1")


def test_agents_find_the_numbers_where_they_look_for_them() -> None:
    def told(prompt: int, asked: int) -> str:
        message: str = errors.body(ContextLengthExceeded("x", excess=Excess(prompt, asked, 100)), "")["error"][
            "message"
        ]
        return message

    assert told(100, 1) == "prompt is too long: 100 tokens > 100 maximum"
    assert told(60, 50).startswith("input length and `max_tokens` exceed context limit: 60 + 50 > 100")

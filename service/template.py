"""Conversations in the form that chat templates expect. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from .conversation import Conversation, ToolCall, Turn


def for_template(conversation: Conversation, short_call_ids: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Messages and options for `apply_chat_template`. Options that are not given leave the template its defaults."""
    names = {call.id: call.name for turn in conversation.turns for call in turn.calls}
    messages = [_message(turn, names, short_call_ids) for turn in _one_system(conversation.turns)]
    options: dict[str, Any] = {}
    if conversation.tools:
        options["tools"] = [tool.as_function() for tool in conversation.tools]
    if conversation.thinking is not None:
        options["enable_thinking"] = conversation.thinking
    if conversation.effort is not None:
        options["reasoning_effort"] = conversation.effort
    return messages, options


def _one_system(turns: tuple[Turn, ...]) -> Iterator[Turn]:
    """Many templates take one system message only: those at the beginning become one."""
    begin = next((place for place, turn in enumerate(turns) if turn.role != "system"), len(turns))
    if begin:
        yield Turn("system", "\n\n".join(turn.text for turn in turns[:begin]), name=turns[0].name)
    yield from turns[begin:]


def _message(turn: Turn, names: Mapping[str, str], short_call_ids: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.text}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [_call(call, short_call_ids) for call in turn.calls]
    if turn.call_id:
        message["tool_call_id"] = _call_id(turn.call_id, short_call_ids)
    # Some templates want to know whose answer a tool's is.
    name = turn.name or (names.get(turn.call_id) if turn.call_id else None)
    if name:
        message["name"] = name
    return message


def _call(call: ToolCall, short_call_ids: bool) -> dict[str, Any]:
    """Templates want the arguments as a mapping; what is none, they get as it was."""
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    function = {"name": call.name, "arguments": arguments}
    return {"id": _call_id(call.id, short_call_ids), "type": "function", "function": function}


def _call_id(call_id: str, short: bool) -> str:
    if not short or len(call_id) == 9:
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]

"""Tool calls out of the text between a model's tags: mlx-lm's parsers where there is one, and what surrounds them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from .conversation import Tool, ToolCall
from .markup import CallFormat

PYTHON_TAG = "<|python_tag|>"


def read_calls(call_format: CallFormat, body: str, tools: Sequence[Tool]) -> tuple[ToolCall, ...] | None:
    """The calls that a body holds, or None when it is broken."""
    try:
        parsed = call_format.parse(body, [tool.as_function() for tool in tools])
        calls = parsed if isinstance(parsed, list) else [parsed]
        return tuple(_call(call) for call in calls) or None
    # A model may write anything, and the parsers are other people's: whatever goes wrong, the call is broken.
    except Exception:
        return None


def json_calls(body: str, tools: list[dict[str, Any]]) -> Any:
    """One JSON object with `name` and `arguments`: Hermes, and what most templates took from it."""
    return json.loads(body)


def llama_calls(body: str, tools: list[dict[str, Any]]) -> list[Any]:
    """JSON objects with `name` and `parameters`, one after the other: Llama 3, which mlx-lm has no parser for."""
    decoder = json.JSONDecoder()
    calls: list[Any] = []
    rest = body.strip()
    while rest:
        call, end = decoder.raw_decode(rest)
        calls.append(call)
        rest = rest[end:].lstrip(" \r\n\t;,")
    return calls


HERMES = CallFormat("<tool_call>", "</tool_call>", json_calls)
LLAMA = CallFormat(PYTHON_TAG, "", llama_calls, bare=True)
# Written under a grammar that allows nothing else, so without tags.
FORCED = CallFormat("<tool_call>", "", json_calls, bare=True)


def _call(parsed: dict[str, Any]) -> ToolCall:
    """Raises when there is no name, or when the arguments are no object that JSON could hold."""
    name = parsed["name"]
    arguments = parsed.get("arguments", parsed.get("parameters"))
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if not (isinstance(name, str) and name and isinstance(arguments, dict | None)):
        raise ValueError("no tool call")
    # Templates that number their calls want their own numbers back.
    call_id = parsed.get("id") or f"call_{uuid.uuid4().hex[:24]}"
    return ToolCall(str(call_id), name, json.dumps(arguments or {}, ensure_ascii=False, allow_nan=False))

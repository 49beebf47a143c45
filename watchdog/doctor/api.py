"""The API as a client meets it: reachable, the right key, answers, streams and tool calls in the right form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..endpoint import DONE, EndpointClient, Streamed
from ..errors import EndpointRefuses, EndpointSilent, NotAnEndpoint, WatchdogError
from .findings import START_AGAIN, Finding, Layer, Level

_finding = partial(Finding, Layer.API)

PATIENCE_S = 20.0
"""A first token that takes longer makes people think that nothing happens."""
TOOLS_REMEDY = f"agents need tool calls: set `engine.model` to one whose template knows tools, and {START_AGAIN}"
FOREIGN_REMEDY = "another program has this port: give the address of the right server with --url"
LOOK_BELOW = "see what the layers below say, or the log of a server that is not ours"
_QUESTION = [{"role": "user", "content": "Reply with one word: ready"}]
_TOOL = {
    "type": "function",
    "function": {
        "name": "report",
        "description": "Report a number.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True)
class Spoken:
    """What came of one request: the answer, or why there is none."""

    answer: Any = None
    error: WatchdogError | None = None


@dataclass(frozen=True)
class ApiReading:
    """What an endpoint said to a client's usual requests; None for those that were not sent."""

    url: str
    models: Spoken
    chat: Spoken | None = None
    stream: Spoken | None = None
    tool: Spoken | None = None


def read_api(client: EndpointClient) -> ApiReading:
    """Ask as a client would; what fails is not asked for more."""
    models = _ask(lambda: client.get("/v1/models"))
    name = _first_model(models.answer)
    if name is None:
        return ApiReading(client.url, models)
    body = {"model": name, "messages": _QUESTION, "max_tokens": 8, "temperature": 0}
    chat = _ask(lambda: client.post("/v1/chat/completions", body))
    if chat.error is not None:
        return ApiReading(client.url, models, chat)
    forced = {
        **body,
        "max_tokens": 60,
        "tools": [_TOOL],
        "tool_choice": {"type": "function", "function": {"name": "report"}},
    }
    return ApiReading(
        client.url,
        models,
        chat,
        stream=_ask(lambda: client.stream("/v1/chat/completions", {**body, "stream": True})),
        tool=_ask(lambda: client.post("/v1/chat/completions", forced)),
    )


def judge_api(reading: ApiReading) -> list[Finding]:
    """One finding for each request that was sent."""
    findings = [_judge_models(reading)]
    if reading.chat is not None:
        findings.append(_judge_chat(reading.chat))
    if reading.stream is not None:
        findings.append(_judge_stream(reading.stream))
    if reading.tool is not None:
        findings.append(_judge_tool(reading.tool))
    return findings


def _judge_models(reading: ApiReading) -> Finding:
    error = reading.models.error
    match error:
        case EndpointRefuses(code=401 | 403):
            remedy = (
                "give the key with --key or in $STOKER_API_KEY, "
                f"or add its line to the file of `server.api_keys` and {START_AGAIN}"
            )
            return _finding("key", Level.FAILURE, f"{reading.url} wants a key that it knows ({error.code})", remedy)
        case EndpointRefuses():
            return _finding("endpoint", Level.FAILURE, str(error), "give the address without a path, or mend the path")
        case EndpointSilent():
            remedy = "start `stoker serve`, or give the port where it serves with --url"
            return _finding("port", Level.FAILURE, str(error), remedy)
        case NotAnEndpoint():
            return _finding("port", Level.FAILURE, str(error), FOREIGN_REMEDY)
    name = _first_model(reading.models.answer)
    if name is None:
        return _finding("endpoint", Level.FAILURE, f"{reading.url}/v1/models names no model", FOREIGN_REMEDY)
    return _finding("endpoint", Level.OK, f"{reading.url} serves {name}")


def _judge_chat(chat: Spoken) -> Finding:
    if chat.error is not None:
        return _failed("format", chat.error)
    try:
        message = chat.answer["choices"][0]["message"]
        tokens = chat.answer["usage"]["completion_tokens"]
        text = message.get("content") or message.get("reasoning_content") or ""
    except (KeyError, IndexError, TypeError, AttributeError):
        return _finding("format", Level.FAILURE, "the answer is not a chat completion", FOREIGN_REMEDY)
    if not text:
        remedy = "the chat template may be another model's, or the model none for chats: see the runtime layer"
        return _finding("format", Level.WARNING, f"{tokens} tokens without a word", remedy)
    return _finding("format", Level.OK, f"a chat completion of {tokens} tokens")


def _judge_stream(stream: Spoken) -> Finding:
    if stream.error is not None:
        return _failed("streaming", stream.error)
    answer: Streamed = stream.answer
    events = [event for event in answer.events if event != DONE]
    if not events or any(_is_error(event) for event in events):
        return _finding("streaming", Level.FAILURE, "the stream holds no answer", LOOK_BELOW)
    if DONE not in answer.events:
        remedy = "a proxy between here and there may cut streams: give the server's own address with --url"
        return _finding("streaming", Level.FAILURE, "the stream ended without [DONE]", remedy)
    measured = f"{len(events)} events, the first after {answer.first_s:.2f} s, the last after {answer.total_s:.2f} s"
    if len(events) > 2 and answer.total_s > 1 and answer.first_s > 0.95 * answer.total_s:
        remedy = (
            "a proxy between here and there buffers the stream: give the server's own address with --url, "
            "or switch its buffering off"
        )
        return _finding("streaming", Level.WARNING, f"{measured}: all at once", remedy)
    if answer.first_s > PATIENCE_S:
        return _finding("streaming", Level.WARNING, measured, "try `stoker doctor --symptom slow`")
    return _finding("streaming", Level.OK, measured)


def _judge_tool(tool: Spoken) -> Finding:
    if tool.error is not None:
        # Chats go on without them.
        level = Level.WARNING if isinstance(tool.error, EndpointRefuses) and tool.error.code < 500 else Level.FAILURE
        return _finding("tool calls", level, str(tool.error), TOOLS_REMEDY)
    try:
        call = tool.answer["choices"][0]["message"]["tool_calls"][0]["function"]
        arguments = json.loads(call["arguments"])
    except (KeyError, IndexError, TypeError, ValueError):
        return _finding("tool calls", Level.WARNING, "a forced tool call did not come as one", TOOLS_REMEDY)
    return _finding("tool calls", Level.OK, f"{call['name']}({json.dumps(arguments)})")


def _is_error(event: str) -> bool:
    try:
        return "error" in json.loads(event)
    except ValueError:
        return True


def _first_model(answer: Any) -> str | None:
    try:
        return str(answer["data"][0]["id"])
    except (KeyError, IndexError, TypeError):
        return None


def _ask(request: Any) -> Spoken:
    try:
        return Spoken(answer=request())
    except WatchdogError as error:
        return Spoken(error=error)


def _failed(check: str, error: WatchdogError) -> Finding:
    return _finding(check, Level.FAILURE, str(error), LOOK_BELOW)

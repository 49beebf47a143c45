"""`POST /v1/messages`, streaming and not, and `POST /v1/messages/count_tokens`."""

from __future__ import annotations

import time
from dataclasses import replace

from aiohttp import web

from ..answering import admitted, answering
from ..asking import AUTO, NONE, REQUIRED, Ask, ToolChoice, json_grammar, plan
from ..canonical import canonical
from ..context import CONTEXT, Context
from ..errors import EngineLoading
from ..middleware import MODEL, REQUEST_ID
from ..relay import respond, stream, whole
from ..schemas import parse
from .request import CountTokensRequest, MessagesRequest
from .shapes import Events, message

FAMILY = "claude-"
"""Agents made for this API ask for its models by name, for small tasks too; here there is one model for all."""
_MODES = {"auto": AUTO, "none": NONE, "any": REQUIRED, "tool": REQUIRED}


async def messages(request: web.Request) -> web.StreamResponse:
    """Raises the `ServiceError` that says why there is no answer, unless the answer has begun."""
    arrived_at = time.monotonic()
    context = request.app[CONTEXT]
    asked = parse(MessagesRequest, await request.read())
    _require_model(request, context, asked.model)
    with admitted(request, context, 1) as caller:
        planned = await plan(context, _ask(asked), arrived_at)
        async with answering(request, context, planned, caller) as answers:
            name, shown = context.model_name, asked.shows_thinking
            if asked.stream:
                events = Events(name, answers.usage, request[REQUEST_ID], show_thinking=shown)
                return await stream(request, answers, events)
            (answer,) = await whole(answers)
            return await respond(answers, message(name, answer, answers.usage(), show_thinking=shown))


async def count_tokens(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    asked = parse(CountTokensRequest, await request.read())
    _require_model(request, context, asked.model)
    if not context.text.ready:
        raise EngineLoading("the tokenizer is still loading; try again in a moment")
    choice = _tool_choice(asked)
    conversation = canonical(asked.conversation, context.server.canonical)
    conversation = conversation if choice.mode != NONE else replace(conversation, tools=())
    prompt = await context.text.render(conversation)
    return web.json_response({"input_tokens": len(prompt.ids)})


def _require_model(request: web.Request, context: Context, name: str) -> None:
    if not name.startswith(FAMILY):
        context.require_model(name)
    request[MODEL] = context.model_name


def _ask(asked: MessagesRequest) -> Ask:
    output = asked.output_config
    schema = None if output is None or output.format is None else output.format.schema_
    return Ask(
        conversation=asked.conversation,
        wishes=asked.wishes,
        max_tokens=asked.max_tokens,
        stops=asked.stop_sequences or (),
        tool_choice=_tool_choice(asked),
        one_call=asked.tool_choice is not None and bool(asked.tool_choice.disable_parallel_tool_use),
        grammar=None if schema is None else json_grammar(schema),
        grammar_param="output_config.format",
    )


def _tool_choice(asked: CountTokensRequest) -> ToolChoice:
    choice = asked.tool_choice
    return ToolChoice() if choice is None else ToolChoice(_MODES[choice.type], choice.name)

"""`/v1/responses`: the whole conversation, or what is new since an earlier response; and what is remembered of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
from aiohttp import web

from ..answering import Plan, admitted, answering
from ..asking import AUTO, REQUIRED, Ask, ToolChoice, json_grammar, plan
from ..context import CONTEXT, Context
from ..conversation import Conversation, Turn
from ..errors import UnsupportedParameter
from ..middleware import MODEL
from ..relay import respond, stream, whole
from ..schemas import parse
from ..segments import Segment
from .chat_request import thinking_of
from .responses_request import NamedFunction, ResponsesRequest
from .responses_shapes import Events, Head, items
from .responses_store import Remembered, ResponseStore
from .shapes import calls_of, reasoning_of, text_of

STORE = web.AppKey("responses", ResponseStore)
RESPONSE_ID = "response_id"


async def responses(request: web.Request) -> web.StreamResponse:
    """Raises the `ServiceError` that says why there is no answer, unless the answer has begun."""
    arrived_at = time.monotonic()
    context, store = request.app[CONTEXT], request.app[STORE]
    asked = parse(ResponsesRequest, await request.read())
    context.require_model(asked.model)
    request[MODEL] = context.model_name
    named = asked.previous_response_id
    earlier = () if named is None else store.get(named, "previous_response_id").turns
    turns = (*earlier, *asked.turns)
    head = Head(context.model_name, asked)

    def remember(response: dict[str, Any], segments: Sequence[Segment]) -> None:
        if asked.store is not False:
            store.keep(head.id, Remembered(orjson.dumps(response), (*turns, _turn(segments))))

    with admitted(request, context, 1, asked.priority) as caller:
        planned = await _plan(context, asked, turns, arrived_at)
        async with answering(request, context, planned, caller) as answers:
            if asked.stream:
                return await stream(request, answers, Events(head, answers.usage, remember))
            (answer,) = await whole(answers)
            response = head.ended(items(answer.segments), answer.outcome, answers.usage())
            remember(response, answer.segments)
            return await respond(answers, response)


async def remembered(request: web.Request) -> web.Response:
    """`GET /v1/responses/{response_id}`. Raises `ResponseNotFound`, and `UnsupportedParameter` for a stream."""
    if request.query.get("stream", "false") != "false":
        raise UnsupportedParameter("a remembered response is not streamed; leave `stream` out", param="stream")
    response = request.app[STORE].get(request.match_info[RESPONSE_ID], RESPONSE_ID)
    return web.Response(body=response.body, content_type="application/json")


async def forget(request: web.Request) -> web.Response:
    """`DELETE /v1/responses/{response_id}`. Raises `ResponseNotFound`."""
    response_id = request.match_info[RESPONSE_ID]
    request.app[STORE].forget(response_id, RESPONSE_ID)
    return web.json_response({"id": response_id, "object": "response", "deleted": True})


async def _plan(context: Context, asked: ResponsesRequest, turns: tuple[Turn, ...], arrived_at: float) -> Plan:
    """With `truncation: auto` the oldest turns are left out: as few as will do, and up to a user's turn.

    Found by bisection: few renderings, however long the conversation.
    """
    planned = await plan(context, _ask(asked, turns), arrived_at)
    window = context.window.tokens
    room = window - (asked.max_output_tokens or min(context.server.default_max_tokens, window // 2))
    if asked.truncation != "auto" or len(planned.prompts[0].ids) <= room:
        return planned
    cuts = [place for place, turn in enumerate(turns) if turn.role == "user" and place > 0]
    low, high = 0, len(cuts) - 1
    while low <= high:
        middle = (low + high) // 2
        shorter = await plan(context, _ask(asked, _since(turns, cuts[middle])), arrived_at)
        if len(shorter.prompts[0].ids) <= room:
            planned, high = shorter, middle - 1
        else:
            low = middle + 1
    return planned


def _since(turns: tuple[Turn, ...], cut: int) -> tuple[Turn, ...]:
    """What the system said before stays."""
    return (*(turn for turn in turns[:cut] if turn.role == "system"), *turns[cut:])


def _ask(asked: ResponsesRequest, turns: tuple[Turn, ...]) -> Ask:
    thinking, effort = thinking_of(asked.effort)
    instructions = () if asked.instructions is None else (Turn("system", asked.instructions),)
    form = None if asked.text is None else asked.text.format
    return Ask(
        conversation=Conversation(
            turns=(*instructions, *turns),
            tools=tuple(tool.tool for tool in asked.tools or ()),
            thinking=thinking,
            effort=effort,
        ),
        wishes=asked.wishes,
        max_tokens=asked.max_output_tokens,
        tool_choice=_tool_choice(asked),
        one_call=asked.parallel_tool_calls is False,
        grammar=None if form is None or form.type == "text" else json_grammar(form.schema_),
        grammar_param="text.format",
    )


def _tool_choice(asked: ResponsesRequest) -> ToolChoice:
    match asked.tool_choice:
        case NamedFunction(name=name):
            return ToolChoice(REQUIRED, name)
        case str(mode):
            return ToolChoice(mode)
        case _:
            return ToolChoice(AUTO)


def _turn(segments: Sequence[Segment]) -> Turn:
    return Turn("assistant", text_of(segments), reasoning_of(segments), tuple(calls_of(segments)))

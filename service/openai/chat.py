"""`POST /v1/chat/completions`, streaming and not."""

from __future__ import annotations

import time

from aiohttp import web

from ..answering import admitted, answering
from ..asking import AUTO, REQUIRED, Ask, ToolChoice, json_grammar, plan
from ..context import CONTEXT
from ..middleware import MODEL
from ..relay import respond, stream, whole
from ..schemas import parse
from .chat_request import ChatCompletionRequest, NamedTool
from .chat_shapes import Chunks, Head, completion


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """Raises the `ServiceError` that says why there is no answer, unless the answer has begun."""
    arrived_at = time.monotonic()
    context = request.app[CONTEXT]
    asked = parse(ChatCompletionRequest, await request.read())
    context.require_model(asked.model)
    request[MODEL] = context.model_name
    ask = _ask(asked)
    with admitted(request, context, ask.choices, asked.priority) as caller:
        planned = await plan(context, ask, arrived_at)
        async with answering(request, context, planned, caller) as answers:
            head, model = Head(context.model_name), context.text.model
            if asked.stream:
                usage = answers.usage if asked.include_usage else None
                return await stream(request, answers, Chunks(head, model, len(answers), usage))
            complete = await whole(answers)
            return await respond(answers, completion(head, model, complete, answers.usage()))


def _ask(asked: ChatCompletionRequest) -> Ask:
    response_format = asked.response_format
    grammar = None
    if response_format is not None and response_format.type != "text":
        schema = response_format.json_schema
        grammar = json_grammar(None if schema is None else schema.schema_)
    return Ask(
        conversation=asked.conversation,
        wishes=asked.wishes,
        seed=asked.seed,
        max_tokens=asked.output_tokens,
        choices=asked.choices,
        stops=asked.stop or (),
        tool_choice=_tool_choice(asked),
        one_call=asked.parallel_tool_calls is False,
        grammar=grammar,
        top_logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
    )


def _tool_choice(asked: ChatCompletionRequest) -> ToolChoice:
    match asked.tool_choice:
        case NamedTool(function=function):
            return ToolChoice(REQUIRED, function.name)
        case str(mode):
            return ToolChoice(mode)
        case _:
            return ToolChoice(AUTO)

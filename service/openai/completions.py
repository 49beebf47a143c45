"""`POST /v1/completions`: texts that the model goes on with as they stand, without a chat template."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from aiohttp import web
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ..answering import Outcome, Plan, Usage, admitted, answering
from ..context import CONTEXT, Context
from ..errors import InvalidValue, ServiceError
from ..generation import Scored
from ..middleware import MODEL
from ..relay import KEEPALIVE, Answer, respond, stream, whole
from ..sampling import sampling
from ..schemas import parse
from ..segments import Segment
from ..text import Prompt, TextModel
from .request import MAX_CHOICES, SamplingRequest
from .shapes import DONE, FINGERPRINT, error_event, event, text_of, usage

DEFAULT_MAX_TOKENS = 16
"""The API's own."""

Words = Annotated[str, Field(min_length=1)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]
Prompts = Annotated[list[Words | TokenIds], Field(min_length=1, max_length=MAX_CHOICES)]


def _prompts(given: Any) -> Any:
    """A text or a list of token ids is the short form of a list of one."""
    if isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int)):
        return [given]
    if isinstance(given, list):
        return given
    raise PydanticCustomError("prompt_type", "Input should be a text, token ids, or a list of either")


class CompletionRequest(SamplingRequest):
    """The body of `POST /v1/completions`."""

    harmless = frozenset({"user"})
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {"best_of": (1,), "suffix": ("",)}

    prompt: Annotated[
        Prompts,
        BeforeValidator(_prompts, json_schema_input_type=Words | TokenIds | Prompts),
    ]
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None


async def completions(request: web.Request) -> web.StreamResponse:
    """Raises the `ServiceError` that says why there is no answer, unless the answer has begun."""
    arrived_at = time.monotonic()
    context = request.app[CONTEXT]
    asked = parse(CompletionRequest, await request.read())
    context.require_model(asked.model)
    request[MODEL] = context.model_name
    count = len(asked.prompt) * asked.choices
    if count > MAX_CHOICES:
        raise InvalidValue(f"`n`: {count} answers are asked for, and {MAX_CHOICES} is the bound", param="n")
    with admitted(request, context, count) as caller:
        planned = await _plan(context, asked, arrived_at)
        model = context.text.model
        echoes = [_echo(model, asked, prompt) for prompt in planned.prompts for _ in range(asked.choices)]
        async with answering(request, context, planned, caller) as answers:
            head = _head(context.model_name)
            if asked.stream:
                at_end = answers.usage if asked.include_usage else None
                return await stream(request, answers, Chunks(head, model, echoes, at_end))
            done = await whole(answers)
            choices = [_whole(model, number, echoes[number], answer) for number, answer in enumerate(done)]
            return await respond(answers, head | {"choices": choices, "usage": usage(answers.usage())})


class Chunks:
    """The events of streamed completions; their `Writer`."""

    def __init__(
        self, head: dict[str, Any], model: TextModel, echoes: Sequence[str], usage_at_end: Callable[[], Usage] | None
    ) -> None:
        self.id: str = head["id"]
        self._head = head
        self._model = model
        self._echoes = echoes
        self._usage = usage_at_end

    def begin(self) -> bytes:
        return b"".join(self._chunk(number, echo) for number, echo in enumerate(self._echoes) if echo)

    def more(self, number: int, segments: Sequence[Segment], scored: Sequence[Scored]) -> bytes:
        return self._chunk(number, text_of(segments), scored=scored)

    def end(self, number: int, outcome: Outcome) -> bytes:
        return self._chunk(number, "", finish=outcome.finish.value)

    def complete(self) -> bytes:
        if self._usage is None:
            return DONE
        return event(self._head | {"choices": [], "usage": usage(self._usage())}) + DONE

    def waiting(self) -> bytes:
        return KEEPALIVE

    def broken(self, error: ServiceError) -> bytes:
        return error_event(error)

    def _chunk(self, number: int, text: str, finish: str | None = None, scored: Sequence[Scored] = ()) -> bytes:
        return event(self._head | {"choices": [_choice(self._model, number, text, finish, scored)]})


async def _plan(context: Context, asked: CompletionRequest, arrived_at: float) -> Plan:
    most = context.window.tokens
    prompts = [
        Prompt(await context.text.encode(prompt, most) if isinstance(prompt, str) else prompt)
        for prompt in asked.prompt
    ]
    return Plan(
        prompts=prompts,
        sampling=sampling(asked.wishes, context.text.model.recommended, asked.seed, asked.logprobs),
        arrived_at=arrived_at,
        max_tokens=asked.max_tokens or DEFAULT_MAX_TOKENS,
        choices=asked.choices,
        stops=asked.stop or (),
    )


def _echo(model: TextModel, asked: CompletionRequest, prompt: Prompt) -> str:
    if not asked.echo:
        return ""
    detokenizer = model.detokenizer()
    return "".join(detokenizer.add(token) for token in prompt.ids) + detokenizer.finish()


def _head(model: str) -> dict[str, Any]:
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
    }


def _whole(model: TextModel, number: int, echo: str, answer: Answer) -> dict[str, Any]:
    text = echo + text_of(answer.segments)
    return _choice(model, number, text, answer.outcome.finish.value, answer.scored)


def _choice(model: TextModel, number: int, text: str, finish: str | None, scored: Sequence[Scored]) -> dict[str, Any]:
    logprobs = _logprobs(model, scored) if scored else None
    return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": finish}


def _logprobs(model: TextModel, scored: Sequence[Scored]) -> dict[str, Any]:
    """The older form: lists side by side."""
    tokens = [model.text_of(token.id) for token in scored]
    offsets = [0]
    for token in tokens[:-1]:
        offsets.append(offsets[-1] + len(token))
    return {
        "tokens": tokens,
        "token_logprobs": [token.scores.logprob for token in scored],
        "top_logprobs": [{model.text_of(other): value for other, value in token.scores.top} for token in scored],
        "text_offset": offsets,
    }

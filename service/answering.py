"""One API request being answered: its generations in the ledger for as long as somebody reads them."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from ..engine.protocol import FinishReason, Grammar, Priority, Sampling
from . import cache_report, telemetry, timing
from .admission import output_bound
from .context import Context
from .conversation import Conversation
from .entry import Order
from .fairness import Caller
from .generation import Generation, Piece
from .markup import Markup
from .operation import CHAT, TEXT_COMPLETION, Asked, Content, Operation, operation
from .sampling import for_choice
from .segments import SegmentReader, Text
from .stream import Feed
from .text import Prompt
from .trace import Attributes
from .transcript import Transcript


@dataclass(frozen=True)
class Plan:
    """What a request wants, in the service's own words: `choices` answers to each of its prompts.

    `max_tokens` is its own bound of one answer; `one_call` ends an answer after its first tool call;
    `conversation` is what was rendered to the only prompt, if that is where it comes from.
    """

    prompts: Sequence[Prompt]
    sampling: Sampling
    arrived_at: float
    max_tokens: int | None = None
    choices: int = 1
    stops: Sequence[str] = ()
    markup: Markup = field(default_factory=Markup)
    conversation: Conversation | None = None
    one_call: bool = False
    grammar: Grammar | None = None


@dataclass(frozen=True)
class Outcome:
    """How one answer ended."""

    finish: FinishReason
    called: bool
    stopped_by: str | None


@dataclass(frozen=True)
class Usage:
    """Tokens of a whole request. A prompt counts once, however many answers it has."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int


class Answering:
    """The generations of one request, numbered: prompt by prompt, and choice by choice within a prompt."""

    def __init__(self, plan: Plan, generations: Sequence[Generation], context: Context, observed: Operation) -> None:
        self._plan = plan
        self._observed = observed
        self._generations = generations
        self._text = context.text
        self._patience_s = context.server.keepalive_s
        self._open = set(range(len(generations)))
        self._reads: dict[asyncio.Task[Piece | None], int] = {}

    def __len__(self) -> int:
        return len(self._generations)

    @property
    def unfinished(self) -> bool:
        return bool(self._open)

    async def next(self) -> tuple[int, Piece] | None:
        """The next piece and the number of its answer; None when there was none for as long as a client is patient.

        Raises the `ServiceError` that ended one of them, and with it the request.
        """
        if len(self._generations) == 1:
            number, piece = 0, await self._generations[0].next(self._patience_s)
        else:
            number, piece = await self._first_of_many()
        if piece is None:
            return None
        if (content := self._observed.content) is not None:
            content.answers[number] += "".join(part.text for part in piece.segments if isinstance(part, Text))
        if piece.finish is not None:
            self._open.discard(number)
        return number, piece

    def outcome(self, number: int, finish: FinishReason) -> Outcome:
        transcript = self._generations[number].transcript
        return Outcome(finish, transcript.called, transcript.stopped_by)

    def usage(self) -> Usage:
        transcripts = [generation.transcript for generation in self._generations]
        firsts = self._generations[:: self._plan.choices]
        return Usage(
            prompt_tokens=sum(len(prompt.ids) for prompt in self._plan.prompts),
            completion_tokens=sum(transcript.tokens for transcript in transcripts),
            cached_tokens=sum(first.prefix.cached for first in firsts if first.prefix is not None),
            reasoning_tokens=sum(transcript.reasoning_tokens for transcript in transcripts),
        )

    def named(self, response_id: str) -> None:
        """What the API calls the answer."""
        self._observed.response_id = response_id

    async def headers(self) -> dict[str, str]:
        """What the cache did for the first prompt, and its times; nothing until the engine has begun with it."""
        prefix = self._generations[0].prefix
        if prefix is None:
            return {}
        message = None if prefix.diverged_at is None else await self._message_at(prefix.diverged_at)
        return {cache_report.HEADER: cache_report.describe(prefix, message), timing.HEADER: self.timing()}

    def timing(self) -> str:
        """Where the time of the first answer went, as far as it has got."""
        return self._generations[0].times.describe(self._plan.arrived_at)

    async def close(self) -> None:
        """Stop reading."""
        for read in self._reads:
            read.cancel()
        await asyncio.gather(*self._reads, return_exceptions=True)

    async def _message_at(self, token: int) -> int | None:
        conversation = self._plan.conversation
        if conversation is None:
            return None
        return await self._text.message_at(token, self._plan.prompts[0].ids, conversation)

    async def _first_of_many(self) -> tuple[int, Piece | None]:
        for number in self._open - set(self._reads.values()):
            self._reads[asyncio.create_task(self._generations[number].next(self._patience_s))] = number
        done, _ = await asyncio.wait(self._reads, return_when=asyncio.FIRST_COMPLETED)
        read = min(done, key=lambda task: self._reads[task])
        return self._reads.pop(read), await read


@contextlib.asynccontextmanager
async def answering(request: web.Request, context: Context, plan: Plan, caller: Caller) -> AsyncIterator[Answering]:
    """The request is in the ledger for as long as this is open. Raises `ContextLengthExceeded`."""
    feeds: dict[str, Feed] = {}
    generations: list[Generation] = []
    with operation(_asked(plan, context), _content(plan, context)) as observed:
        try:
            for order, prompt in _orders(context, plan, caller, observed):
                feed = feeds[order.id] = Feed(context.server.max_buffered_events, on_stuck=lambda: _cut(request))
                tools = () if plan.conversation is None else plan.conversation.tools
                reader = SegmentReader(plan.markup, tools, in_reasoning=prompt.in_reasoning)
                transcript = Transcript(context.text.model.detokenizer(), reader, plan.stops, one_call=plan.one_call)
                generations.append(Generation(order.id, context.ledger, feed, transcript))
                context.submit(order, feed)
            context.door.spent(caller, sum(len(prompt.ids) for prompt in plan.prompts))
            answers = Answering(plan, generations, context, observed)
            try:
                yield answers
            finally:
                await answers.close()
                observed.used = _usage_attributes(answers.usage())
        finally:
            # Nothing happens to what has ended; if it has not, its client has left.
            for order_id in feeds:
                context.ledger.cancel(order_id)
            context.door.spent(caller, sum(generation.transcript.tokens for generation in generations))


@contextlib.contextmanager
def admitted(
    request: web.Request, context: Context, generations: int, wanted: Priority = Priority.INTERACTIVE
) -> Iterator[Caller]:
    """A place for each generation of one request. Raises the `ServiceError` that says why there is none."""
    with contextlib.ExitStack() as stack:
        callers = [stack.enter_context(context.admitted(request, wanted)) for _ in range(generations)]
        yield callers[0]


def _orders(context: Context, plan: Plan, caller: Caller, observed: Operation) -> Iterator[tuple[Order, Prompt]]:
    for prompt in plan.prompts:
        max_tokens = output_bound(len(prompt.ids), plan.max_tokens, context.server, context.window)
        for choice in range(plan.choices):
            yield (
                Order(
                    id=f"gen-{uuid.uuid4().hex}",
                    prompt=prompt.ids,
                    sampling=for_choice(plan.sampling, choice),
                    max_tokens=max_tokens,
                    stop_ids=context.text.model.stop_ids,
                    arrived_at=plan.arrived_at,
                    caller=caller,
                    grammar=plan.grammar,
                    trail=observed.trail(),
                ),
                prompt,
            )


def _asked(plan: Plan, context: Context) -> Asked:
    return Asked(
        TEXT_COMPLETION if plan.conversation is None else CHAT,
        context.model_name,
        plan.sampling,
        plan.max_tokens,
        plan.choices * len(plan.prompts),
        plan.stops,
        plan.arrived_at,
    )


def _content(plan: Plan, context: Context) -> Content | None:
    if not context.telemetry.capture_content:
        return None
    if plan.conversation is not None:
        return Content([(turn.role, turn.text) for turn in plan.conversation.turns])
    detokenizers = [(context.text.model.detokenizer(), prompt.ids) for prompt in plan.prompts]
    return Content([("user", "".join(map(each.add, ids)) + each.finish()) for each, ids in detokenizers])


def _usage_attributes(usage: Usage) -> Attributes:
    return {
        telemetry.USAGE_INPUT: usage.prompt_tokens,
        telemetry.USAGE_OUTPUT: usage.completion_tokens,
        telemetry.USAGE_CACHED: usage.cached_tokens,
        telemetry.USAGE_REASONING: usage.reasoning_tokens,
    }


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()

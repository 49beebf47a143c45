"""The load client: asks on time, keeps conversations going, and says what became of every request."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aiohttp import web

from stoker.soak.load import drive
from stoker.soak.outcome import Failure, Finding, Outcome
from stoker.soak.target import Target
from stoker.soak.workloads import Conversation, Message, Turn
from tests.soak.servers import HELLO, Handler, answering, chunk, event, serving, stream, usage


@dataclass(frozen=True)
class Listed:
    """A workload of just these conversations."""

    listed: tuple[Conversation, ...]
    streams: int | None = None
    name: str = "listed"

    def conversations(self) -> Iterator[Conversation]:
        return iter(self.listed)


def conversation(number: int = 0, turns: int = 1, at: float = 0.0, max_tokens: int = 8) -> Conversation:
    asked = tuple(Turn((Message("user", f"Question {turn}"),), max_tokens) for turn in range(turns))
    return Conversation("listed", number, asked, at)


async def asked(target: Target, *conversations: Conversation, **options: Any) -> list[Outcome]:
    outcomes: list[Outcome] = []
    async with asyncio.timeout(30):
        await drive(target, Listed(conversations or (conversation(),)), on_outcome=outcomes.append, **options)
    return outcomes


async def only(handler: Handler, **options: Any) -> Outcome:
    async with serving(handler) as target:
        (outcome,) = await asked(target, **options)
    return outcome


async def test_an_answer_is_told_with_its_times_and_the_servers_own_counts() -> None:
    outcome = await only(HELLO)
    assert outcome.ok
    assert outcome.text == "Hello world."
    assert (outcome.prompt_tokens, outcome.cached_tokens, outcome.completion_tokens) == (10, 4, 3)
    assert outcome.first_token is not None
    assert outcome.intended <= outcome.sent <= outcome.first_token <= outcome.ended


async def test_a_conversation_grows_by_what_was_answered() -> None:
    bodies: list[Any] = []

    async def remember(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        return await stream(request, chunk(f"Answer {len(bodies)}"), chunk(finish="stop"))

    async with serving(remember) as target:
        outcomes = await asked(target, conversation(turns=3))
    assert [outcome.turn for outcome in outcomes] == [0, 1, 2]
    said = [message["content"] for message in bodies[-1]["messages"]]
    assert said == ["Question 0", "Answer 1", "Question 1", "Answer 2", "Question 2"]


@pytest.mark.parametrize(
    ("handler", "failure"),
    [
        (answering(chunk("Hel")), Failure.BROKEN),
        (answering(chunk("Hel"), event({"error": {"message": "engine_unavailable"}})), Failure.SERVER_ERROR),
        (answering(b"data: {nonsense\n\n"), Failure.MALFORMED),
        (answering(b"data: [1]\n\n"), Failure.MALFORMED),
    ],
)
async def test_a_stream_that_ends_wrongly_is_told_from_a_whole_one(handler: Handler, failure: Failure) -> None:
    assert (await only(handler)).failure is failure


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (400, Failure.REJECTED),
        (429, Failure.REFUSED),
        (500, Failure.SERVER_ERROR),
        (503, Failure.REFUSED),
        (529, Failure.REFUSED),
    ],
)
async def test_refusals_are_told_from_errors(status: int, failure: Failure) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no room"}}, status=status)

    outcome = await only(refuse)
    assert outcome.failure is failure
    assert "no room" in (outcome.error or "")


async def test_a_connection_that_is_cut_in_the_middle_is_a_broken_stream() -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(chunk("Hel"))
        assert request.transport is not None
        request.transport.abort()
        return response

    assert (await only(cut)).failure is Failure.BROKEN


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with serving(HELLO) as target:
        pass
    (outcome,) = await asked(target)
    assert outcome.failure is Failure.UNREACHABLE


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        return await stream(request, b": keep-alive\n\n", asyncio.Event())

    assert (await only(never, deadline_s=0.2)).failure is Failure.TIMEOUT


async def test_a_conversation_ends_with_its_first_failure() -> None:
    async with serving(answering(chunk("Hel"))) as target:
        assert len(await asked(target, conversation(turns=3))) == 1


async def test_latency_counts_from_the_intended_start_while_the_server_is_busy() -> None:
    """No coordinated omission: both should have begun at 0, and a clock that has run on says how late they were."""
    async with serving(HELLO) as target:
        outcomes = await asked(target, conversation(0), conversation(1), clock=itertools.count(5.0).__next__)
    assert all(outcome.intended == 0 and outcome.duration_s > 5 for outcome in outcomes)


async def test_nothing_new_begins_after_the_end_and_what_runs_is_finished() -> None:
    now = 0.0

    async def last(request: web.Request) -> web.StreamResponse:
        nonlocal now
        now = 10.0
        return await stream(request, chunk("Hello"), chunk(finish="stop"))

    async with serving(last) as target:
        # Closed, one at a time: the second finds that the time is over.
        outcomes: list[Outcome] = []
        workload = Listed((conversation(0), conversation(1)), streams=1)
        async with asyncio.timeout(30):
            await drive(target, workload, on_outcome=outcomes.append, until=5.0, clock=lambda: now)
    assert [outcome.conversation for outcome in outcomes] == [0]


async def test_a_closed_loop_holds_as_many_conversations_as_it_says() -> None:
    running, most, full = 0, 0, asyncio.Event()

    async def count(request: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await full.wait()
        running -= 1
        return await stream(request, chunk("Hello"), chunk(finish="stop"))

    async with serving(count) as target, asyncio.timeout(30):
        workload = Listed(tuple(conversation(number) for number in range(9)), streams=3)
        await drive(target, workload, on_outcome=lambda _: None)
    assert most == 3


async def test_a_text_that_lost_tokens_is_found_by_its_count() -> None:
    short = answering(chunk("Hello"), chunk(finish="length", usage=usage(5, 7)))
    assert (await only(short)).findings == (Finding.WRONG_COUNT,)


async def test_a_stream_that_says_it_was_resumed_is_told_so() -> None:
    timing = b': server-timing queue;dur=1.0, prefill;dur=2.0, decode;dur=3.0, resume;desc="1"\n\n'
    assert (await only(answering(chunk("Hello"), timing, chunk(finish="stop")))).resumed
    assert not (await only(HELLO)).resumed


async def test_anthropics_api_is_asked_and_read_in_its_own_words() -> None:
    bodies: list[Any] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        count = {"input_tokens": 6, "cache_read_input_tokens": 4}
        return await stream(
            request,
            event({"type": "message_start", "message": {"usage": count}}),
            event({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm. "}}),
            event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello"}}),
            event({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 8}}),
        )

    async with serving(HELLO, answer) as target:
        turn = Turn((Message("system", "Be kind."), Message("user", "Hello?")), 8)
        (outcome,) = await asked(replace(target, api="anthropic"), replace(conversation(), turns=(turn,)))
    assert bodies[0]["system"] == "Be kind."
    assert bodies[0]["messages"] == [{"role": "user", "content": "Hello?"}]
    assert (outcome.text, outcome.finish_reason, outcome.findings) == ("Hm. Hello", "length", ())
    assert (outcome.prompt_tokens, outcome.cached_tokens, outcome.completion_tokens) == (10, 4, 8)

"""A request that kills the engine fails alone, and whoever shared the engine with it does not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stoker.config import Fault, Simulated
from tests.service.rig import Rig, ask, events, text_of

POISON = "the word that kills"


def engine_that_dies_of_it(after_tokens: int = 0) -> Simulated:
    return Simulated(step_s=0.002, faults=(Fault(kind="crash", prompt_contains=POISON, after_tokens=after_tokens),))


async def text(rig: Rig, question: str) -> str:
    async with rig.post(ask(question)) as response:
        answer: dict[str, Any] = await response.json()
    content = answer["choices"][0]["message"]["content"]
    assert isinstance(content, str)
    return content


async def stream(rig: Rig, question: str) -> str:
    async with rig.post(ask(question, stream=True)) as response:
        return await text_of(events(response))


async def poisoned(rig: Rig, **more: Any) -> tuple[int, str]:
    status, error = await rig.error(ask(f"Say {POISON}.") | more)
    return status, error["code"]


@pytest.mark.parametrize("after_tokens", [0, 10])
async def test_a_poisoned_request_among_seven_innocents_fails_alone(
    make_rig: Callable[..., Rig], after_tokens: int
) -> None:
    rig = make_rig(simulated=engine_that_dies_of_it(after_tokens))
    await rig.start()
    questions = [f"Question {number}" for number in range(7)]
    undisturbed = [await text(rig, question) for question in questions]
    async with rig.engines_that_follow_each_other():
        innocents = [asyncio.create_task(stream(rig, question)) for question in questions]
        assert await poisoned(rig) == (500, "request_quarantined")
        assert await asyncio.gather(*innocents) == undisturbed
        assert await rig.metric('stoker_request_resumes_total{outcome="quarantined"}') == 1


async def test_the_same_again_is_refused_before_it_reaches_an_engine(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=engine_that_dies_of_it())
    await rig.start()
    async with rig.engines_that_follow_each_other():
        assert await poisoned(rig) == (500, "request_quarantined")
        await rig.until_status("/health/ready", 200)
        survivor = rig.engine
        assert await poisoned(rig, seed=8) == (500, "request_quarantined")
        assert await text(rig, "Hello")
        assert rig.engine is survivor


async def test_a_stream_that_kills_the_engine_ends_with_an_error_event(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=engine_that_dies_of_it(after_tokens=5))
    await rig.start()
    async with (
        rig.engines_that_follow_each_other(),
        rig.post(ask(f"Say {POISON}.", stream=True)) as response,
    ):
        *_, last = [event async for event in events(response)]
    assert last["error"]["code"] == "request_quarantined"

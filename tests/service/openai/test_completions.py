"""Text completions through the official library: texts, token ids, several of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import get_type_hints

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.completion_create_params import CompletionCreateParamsStreaming

from stoker.service.openai.completions import CompletionRequest
from tests.service.rig import Rig


@pytest.fixture
async def client(make_rig: Callable[..., Rig]) -> AsyncIterator[AsyncOpenAI]:
    rig = make_rig()
    await rig.start()
    async with AsyncOpenAI(base_url=rig.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_a_text_is_its_token_ids(client: AsyncOpenAI) -> None:
    create = client.completions.create
    by_text = await create(model="tiny", prompt="once", seed=1, max_tokens=20)
    by_ids = await create(model="tiny", prompt=list(b"once"), seed=1, max_tokens=20)
    assert by_text.choices[0].text == by_ids.choices[0].text != ""
    assert by_text.usage is not None
    assert (by_text.usage.prompt_tokens, by_text.usage.completion_tokens) == (4, 20)
    assert (await create(model="tiny", prompt="once")).choices[0].finish_reason == "length", "16 by default"


async def test_every_prompt_has_its_answers_in_order(client: AsyncOpenAI) -> None:
    alone = await client.completions.create(model="tiny", prompt="twice", seed=1, max_tokens=9)
    answer = await client.completions.create(
        model="tiny", prompt=["once", "twice"], n=2, seed=1, max_tokens=9, echo=True
    )
    texts = [choice.text for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert texts[2] == "twice" + alone.choices[0].text
    assert [text[:4] for text in texts] == ["once", "once", "twic", "twic"]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (9, 36)
    stream = await client.completions.create(
        model="tiny", prompt=["once", "twice"], n=2, seed=1, max_tokens=9, echo=True, stream=True
    )
    streamed = ["", "", "", ""]
    async for chunk in stream:
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == texts


async def test_what_is_not_served_is_refused_by_name(client: AsyncOpenAI) -> None:
    create = client.completions.create
    with pytest.raises(openai.BadRequestError, match="suffix"):
        await create(model="tiny", prompt="x", suffix="y")
    with pytest.raises(openai.BadRequestError, match="best_of"):
        await create(model="tiny", prompt="x", best_of=2)
    with pytest.raises(openai.UnprocessableEntityError, match="`n`"):
        await create(model="tiny", prompt=["x"] * 9, n=2)
    with pytest.raises(openai.BadRequestError, match="vocabulary"):
        await create(model="tiny", prompt=[70_000])


def test_every_parameter_of_the_official_library_is_known() -> None:
    known = {*CompletionRequest.model_fields, *CompletionRequest.harmless, *CompletionRequest.refused}
    assert set(get_type_hints(CompletionCreateParamsStreaming)) <= known

"""What the API promises, kept by the demo model: schemas, forced calls, log probabilities, choices and seeds."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "job": {"enum": ["baker", "sailor", "teacher"]},
    },
    "required": ["name", "age", "job"],
    "additionalProperties": False,
}
QUESTION: Any = [{"role": "user", "content": "Tell me of a person."}]


@pytest.fixture
async def client(api: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{api}/v1", api_key="none", timeout=300, max_retries=0) as client:
        yield client


async def test_an_answer_is_of_its_schema_in_every_api(client: AsyncOpenAI, api: str) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    text: Any = {"format": {"type": "json_schema", "name": "person", "schema": PERSON}}
    output: Any = {"format": {"type": "json_schema", "schema": PERSON}}
    async with AsyncAnthropic(base_url=api, api_key="none", timeout=300, max_retries=0) as claude:
        chat, response, message = await asyncio.gather(
            client.chat.completions.create(
                model="default", messages=QUESTION, response_format=form, seed=1, max_tokens=120
            ),
            client.responses.create(model="default", input="Tell me of a person.", text=text, max_output_tokens=120),
            claude.messages.create(model="default", messages=QUESTION, output_config=output, max_tokens=120),
        )
    said = "".join(block.text for block in message.content if block.type == "text")
    for answer in (chat.choices[0].message.content or "", response.output_text, said):
        jsonschema.validate(json.loads(answer), PERSON)


async def test_log_probabilities_are_those_of_the_tokens_that_were_drawn(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="default", messages=QUESTION, temperature=0, max_tokens=8, logprobs=True, top_logprobs=3
    )
    scores = answer.choices[0].logprobs
    assert scores is not None
    assert scores.content is not None
    assert "".join(token.token for token in scores.content) == answer.choices[0].message.content
    for token in scores.content:
        assert token.logprob <= 0
        assert token.token == token.top_logprobs[0].token, "greedy draws the likeliest"
        assert sum(math.exp(other.logprob) for other in token.top_logprobs) <= 1 + 1e-6


async def test_a_seed_gives_the_same_choices_again_and_each_its_own(client: AsyncOpenAI) -> None:
    create = client.chat.completions.create
    once = await create(model="default", messages=QUESTION, n=3, seed=11, temperature=1, max_tokens=12)
    again = await create(model="default", messages=QUESTION, n=3, seed=11, temperature=1, max_tokens=12)
    texts = [choice.message.content for choice in once.choices]
    assert texts == [choice.message.content for choice in again.choices]
    assert len(set(texts)) == 3
    other = await create(model="default", messages=QUESTION, seed=12, temperature=1, max_tokens=12)
    assert other.choices[0].message.content not in texts


async def test_a_bias_and_a_stop_string_are_obeyed(client: AsyncOpenAI) -> None:
    create = client.chat.completions.create
    plain = await create(model="default", messages=QUESTION, temperature=0, max_tokens=16)
    text = plain.choices[0].message.content or ""
    word = text.split()[2]
    stopped = await create(model="default", messages=QUESTION, temperature=0, max_tokens=16, stop=word)
    assert stopped.choices[0].message.content == text[: text.index(word)]
    assert stopped.choices[0].finish_reason == "stop"
    biased = await create(model="default", messages=QUESTION, temperature=0, max_tokens=4, logit_bias={"504": 100})
    tokens = await create(
        model="default", messages=QUESTION, temperature=0, max_tokens=4, logit_bias={"504": 100}, logprobs=True
    )
    assert tokens.choices[0].message.content == biased.choices[0].message.content
    assert tokens.choices[0].logprobs is not None
    assert len({token.token for token in tokens.choices[0].logprobs.content or ()}) == 1, "one token again and again"

"""The real thing end to end: `stoker serve` with the demo model, over HTTP."""

from __future__ import annotations

import asyncio

import pytest
from openai import AsyncOpenAI

from stoker.watchdog.metrics_page import service_rows
from tests.e2e.running import eventually, exported, scraped

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

MAX_TOKENS = 48
QUESTIONS = [
    ("What is the capital of France?", 0.0),
    ("Tell me a story about a lighthouse keeper and his cat.", 0.0),
    ("List ten animals.", 0.7),
    ("Explain how bread rises. " + "Take your time and be thorough. " * 12, 1.0),
    ("Write a poem about rain.", 1.3),
    ("What is 2 + 2?", 0.5),
    ("Name the planets in order. " + "They circle the sun. " * 30, 0.0),
    ("Give me three uses for a brick.", 0.9),
]


async def answer(api: str, question: str, temperature: float, seed: int = 0) -> str:
    """Stream one answer; returns its whole text."""
    async with AsyncOpenAI(base_url=f"{api}/v1", api_key="none", timeout=300) as client:
        stream = await client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": question}],
            temperature=temperature,
            seed=seed,
            max_tokens=MAX_TOKENS,
            stream=True,
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def test_the_capital_of_france_is_paris_streamed_and_not(api: str) -> None:
    question = "What is the capital of France?"
    async with AsyncOpenAI(base_url=f"{api}/v1", api_key="none", timeout=300) as client:
        whole = await client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": question}], temperature=0
        )
    assert "Paris" in (whole.choices[0].message.content or "")
    assert whole.choices[0].finish_reason == "stop"
    assert await answer(api, question, 0.0) == whole.choices[0].message.content


async def test_eight_streams_at_once_each_give_the_text_they_give_alone(api: str) -> None:
    """Different lengths, temperatures and seeds, joining and leaving the batch at different steps."""
    requests = [(question, temperature, seed) for seed, (question, temperature) in enumerate(QUESTIONS)]
    together = await asyncio.gather(*(answer(api, *request) for request in requests))
    alone = [await answer(api, *request) for request in requests]
    assert together == alone
    assert len(set(together)) == len(requests)


async def test_a_real_engine_exports_every_metric_that_is_declared(api: str) -> None:
    for _ in range(2):
        await answer(api, "Say this again and again: " + "one, two, three, four, five, " * 40, 0.0)
    declared = {row.name for row in service_rows()}
    await eventually(lambda: exported(api) == declared)
    for series in (
        'stoker_prefix_cache_bytes{tier="disk"}',
        'stoker_prefix_cache_tokens_total{outcome="hit",tier="ram"}',
        'stoker_prefix_cache_evictions_total{tier="ram"}',
        'stoker_speculative_tokens_total{method="prompt_lookup",outcome="drafted"}',
        'stoker_engine_memory_bytes{kind="weights"}',
    ):
        assert series in scraped(api)

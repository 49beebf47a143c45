"""The API over a real engine with a tiny random model: what grammars hold, and what the prefix cache finds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.service.random_schemas import random_schema
from tests.service.rig import Rig
from tests.service.scripts import SCHEMA, with_tools

pytestmark = pytest.mark.timeout(180)

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
RULES = "You are an agent. Work in small steps, test what you change, and say what you did. "


@pytest.fixture
async def rig(make_rig: Callable[..., Rig], tiny_model: Path, tmp_path: Path) -> Rig:
    rig = make_rig(model_path=with_tools(tiny_model, tmp_path / "tools"), real=True)
    await rig.start()
    return rig


async def answer(rig: Rig, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The answer, and what the cache did."""
    async with rig.post({"model": "default"} | body, path) as response:
        got = await response.json()
        assert response.status == 200, got
        return got, response.headers["x-stoker-cache"]


async def test_answers_under_two_hundred_random_schemas_are_instances_of_them(rig: Rig) -> None:
    random = Random(20)
    schemas = [random_schema(random) for _ in range(200)]

    async def ask(http: aiohttp.ClientSession, number: int) -> str:
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schemas[number], "strict": True}}
        body = {"messages": [{"role": "user", "content": "Go."}], "seed": number, "response_format": form}
        async with http.post(rig.url + CHAT, json={"model": "default", "max_tokens": 800} | body) as response:
            got = await response.json()
            assert response.status == 200, (schemas[number], got)
            assert got["choices"][0]["finish_reason"] == "stop", schemas[number]
            return str(got["choices"][0]["message"]["content"])

    connector = aiohttp.TCPConnector(limit=32)
    async with aiohttp.ClientSession(connector=connector) as http:
        answers = await asyncio.gather(*(ask(http, number) for number in range(len(schemas))))
    for schema, text in zip(schemas, answers, strict=True):
        jsonschema.validate(json.loads(text), schema)
    assert len(set(answers)) > 150, "the model has a choice, and makes it"


async def test_a_tool_that_must_be_called_is_called_with_arguments_of_its_schema(rig: Rig) -> None:
    city = {**SCHEMA, "properties": {"city": {"type": "string", "maxLength": 8}}, "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": name, "parameters": city}} for name in ("look", "listen")]
    ask = {"messages": [{"role": "user", "content": "Go."}], "tools": tools, "seed": 3, "max_tokens": 400}
    for choice in ("required", {"type": "function", "function": {"name": "listen"}}):
        got, _ = await answer(rig, CHAT, ask | {"tool_choice": choice})
        (call,) = got["choices"][0]["message"]["tool_calls"]
        assert got["choices"][0]["finish_reason"] == "tool_calls"
        assert call["function"]["name"] in ({"look", "listen"} if choice == "required" else {"listen"})
        jsonschema.validate(json.loads(call["function"]["arguments"]), city)


async def test_the_second_turn_of_an_agent_whose_system_prompt_has_a_nonce_is_nearly_all_cached(rig: Rig) -> None:
    def system(nonce: str) -> list[dict[str, Any]]:
        header = f"x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli; cch={nonce};"
        return [{"type": "text", "text": header}, {"type": "text", "text": RULES * 40}]

    question = {"role": "user", "content": "What is in this folder?"}
    first, _ = await answer(
        rig, MESSAGES, {"max_tokens": 24, "temperature": 0, "system": system("0a1b2"), "messages": [question]}
    )
    said = "".join(block["text"] for block in first["content"])
    turns = [question, {"role": "assistant", "content": said}, {"role": "user", "content": "And then?"}]
    second, cache = await answer(
        rig, MESSAGES, {"max_tokens": 4, "temperature": 0, "system": system("ffff-other"), "messages": turns}
    )
    usage = second["usage"]
    cached, prompt = usage["cache_read_input_tokens"], usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert prompt > 3000
    assert cached >= 0.95 * prompt
    assert cache.startswith(f"hit={cached}/{prompt}; tier=ram")


async def test_a_miss_names_the_message_that_is_not_what_it_was(rig: Rig) -> None:
    def turns(second: str) -> list[dict[str, str]]:
        texts = [
            ("user", RULES * 3),
            ("assistant", second),
            ("user", RULES * 3),
            ("assistant", "Hm."),
            ("user", "Go on."),
        ]
        return [{"role": role, "content": text} for role, text in texts]

    ask = {"max_tokens": 2, "temperature": 0}
    system = {"role": "system", "content": RULES * 2}
    _, cold = await answer(rig, CHAT, ask | {"messages": [system, *turns("Yes." * 20)]})
    assert "hit=0/" in cold
    assert "miss=cold" in cold
    got, diverged = await answer(rig, CHAT, ask | {"messages": [system, *turns("No." * 30)]})
    assert "miss=diverged; message=2" in diverged
    cached = got["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert diverged.startswith(f"hit={cached}/")
    assert 0 < cached < got["usage"]["prompt_tokens"]

"""Chat completions with tools, reasoning and several answers, through the official library."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageFunctionToolCall, ChatCompletionMessageParam, ChatCompletionToolParam

from stoker.config import Simulated
from tests.service.rig import Rig, ask, events
from tests.service.scripts import ARGUMENTS, CALL, SAID, SCHEMA, THOUGHT, TOOL_SCRIPT, with_tools
from tests.tiny_models import VOCABULARY

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "The weather in Köln?"}]
TOOLS: list[ChatCompletionToolParam] = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]


@pytest.fixture(params=["simulated text", "a real tokenizer"])
async def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig], tiny_model: Path, tmp_path: Path) -> Rig:
    if request.param == "simulated text":
        rig = make_rig(simulated=Simulated(script=TOOL_SCRIPT))
    else:
        folder = with_tools(tiny_model, tmp_path / "tools")
        # The tiny model's tokenizer knows no reasoning.
        script = TOOL_SCRIPT.partition("</think>\n\n")[2]
        rig = make_rig(model_path=folder, simulated=Simulated(script=script, vocabulary=VOCABULARY))
    await rig.start()
    return rig


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=rig.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_a_model_that_calls_a_tool_is_understood_and_gets_its_answer(client: AsyncOpenAI) -> None:
    create = client.chat.completions.create
    answer = await create(model="tiny", messages=MESSAGES, tools=TOOLS)
    choice = answer.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", SAID)
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert isinstance(call, ChatCompletionMessageFunctionToolCall)
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", ARGUMENTS)
    result: ChatCompletionMessageParam = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    said: Any = choice.message.model_dump(exclude_none=True)
    assert await create(model="tiny", messages=[*MESSAGES, said, result], tools=TOOLS)


async def test_the_official_library_puts_a_streamed_call_together(client: AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model="tiny", messages=MESSAGES, tools=TOOLS) as stream:
        async for event in stream:
            if event.type == "content.delta":
                assert "<" not in event.delta
        answer = await stream.get_final_completion()
    assert answer.choices[0].message.tool_calls is not None
    (call,) = answer.choices[0].message.tool_calls
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (SAID, "tool_calls")
    assert json.loads(call.function.arguments) == ARGUMENTS


async def test_without_tools_their_tags_are_text(client: AsyncOpenAI) -> None:
    create = client.chat.completions.create
    for answer in (
        await create(model="tiny", messages=MESSAGES),
        await create(model="tiny", messages=MESSAGES, tools=TOOLS, tool_choice="none"),
    ):
        assert answer.choices[0].message.content == f"{SAID}\n\n{CALL}"
        assert answer.choices[0].finish_reason == "stop"


async def test_reasoning_is_told_apart_and_counted(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=Simulated(script=TOOL_SCRIPT))
    await rig.start()
    async with rig.post(ask()) as response:
        answer = await response.json()
    assert answer["choices"][0]["message"]["reasoning_content"] == THOUGHT
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] >= len(THOUGHT)
    async with rig.post(ask(stream=True)) as response:
        deltas = [event["choices"][0]["delta"] async for event in events(response)]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == THOUGHT


async def test_several_answers_have_seeds_of_their_own(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    async with rig.post(ask(n=3)) as response:
        whole = await response.json()
    texts = [choice["message"]["content"] for choice in whole["choices"]]
    assert len(set(texts)) == 3
    async with rig.post(ask()) as response:
        assert (await response.json())["choices"][0]["message"]["content"] == texts[0], "the first is the only one's"
    async with rig.post(ask(n=3, stream=True)) as response:
        streamed = ["", "", ""]
        async for event in events(response):
            for choice in event["choices"]:
                streamed[choice["index"]] += choice["delta"].get("content") or ""
    assert streamed == texts
    assert whole["usage"]["completion_tokens"] >= sum(map(len, texts))


async def test_a_tool_that_must_be_called_is_whatever_tags_the_model_has(make_rig: Callable[..., Rig]) -> None:
    script = '{"name": "get_weather", "arguments": {"city": "Köln"}}'
    rig = make_rig(simulated=Simulated(script=script))
    await rig.start()
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        async with rig.post(ask(tools=TOOLS, tool_choice=choice)) as response:
            answer = (await response.json())["choices"][0]
        assert answer["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    status, error = await rig.error(ask(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "other"}}))
    assert (status, error["param"]) == (422, "tool_choice")


async def test_what_the_model_cannot_do_is_refused_by_name(make_rig: Callable[..., Rig], tiny_model: Path) -> None:
    rig = make_rig(model_path=tiny_model, simulated=Simulated(vocabulary=VOCABULARY))
    await rig.start()
    async with AsyncOpenAI(base_url=rig.url + "/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(model="tiny", messages=MESSAGES, tools=TOOLS)
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "tools")


async def test_the_answer_says_what_the_cache_did(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    async with rig.post(ask(max_tokens=2)) as whole, rig.post(ask(max_tokens=2, stream=True)) as streamed:
        for response in (whole, streamed):
            assert response.headers["x-stoker-cache"].startswith("hit=0/")


async def test_no_log_has_a_word_of_a_prompt_or_an_answer(make_rig: Callable[..., Rig], tmp_path: Path) -> None:
    rig = make_rig(simulated=Simulated(script="canary-in-the-answer"))
    log = tmp_path / "service.log"
    await rig.start_service(log=log)
    await rig.start_engine()
    for body in (ask("canary-in-the-prompt"), ask("canary-in-the-prompt", stream=True), ask(user="canary", nonsense=1)):
        async with rig.post(body) as response:
            await response.read()
    assert '"event": "request"' in log.read_text()
    assert "canary" not in log.read_text()

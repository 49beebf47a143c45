"""Messages through the official library, streaming and not, with tools and thinking."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, TextBlock, ThinkingBlock, ToolParam, ToolUseBlock

from stoker.config import Server, Simulated
from tests.service.rig import Rig
from tests.service.scripts import ARGUMENTS, SAID, THOUGHT, TOOL_SCRIPT, with_tools
from tests.tiny_models import VOCABULARY

PATH = "/v1/messages"
MESSAGES: list[MessageParam] = [{"role": "user", "content": "The weather in Köln?"}]
PROPERTIES = {"city": {"type": "string"}}
TOOLS: list[ToolParam] = [{"name": "get_weather", "input_schema": {"type": "object", "properties": PROPERTIES}}]
ASKED: dict[str, Any] = {"model": "tiny", "max_tokens": 1000, "messages": MESSAGES}


@pytest.fixture
async def rig(make_rig: Callable[..., Rig]) -> Rig:
    rig = make_rig(simulated=Simulated(script=TOOL_SCRIPT))
    await rig.start()
    return rig


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=rig.url, api_key="none", max_retries=0) as client:
        yield client


async def test_the_official_library_gets_thinking_text_and_a_call(client: AsyncAnthropic) -> None:
    answer = await client.messages.create(**ASKED, tools=TOOLS, thinking={"type": "adaptive"})
    thinking, text, call = answer.content
    assert isinstance(thinking, ThinkingBlock)
    assert isinstance(text, TextBlock)
    assert isinstance(call, ToolUseBlock)
    assert (thinking.thinking, text.text) == (THOUGHT, SAID)
    assert (call.name, call.input, answer.stop_reason) == ("get_weather", ARGUMENTS, "tool_use")
    assert answer.usage.cache_read_input_tokens == 0
    assert answer.usage.cache_creation_input_tokens == 0
    assert answer.usage.output_tokens_details is not None
    assert answer.usage.output_tokens_details.thinking_tokens >= len(THOUGHT)
    result: MessageParam = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Rain.", "is_error": True}],
    }
    said: MessageParam = {"role": "assistant", "content": [block.model_dump() for block in answer.content]}
    again = await client.messages.create(
        model="claude-haiku-4-5", max_tokens=1000, messages=[*MESSAGES, said, result], tools=TOOLS
    )
    assert again.model == "tiny", "whoever asks for a Claude is told who answers"
    assert [block.type for block in again.content] == ["text", "tool_use"], "nobody asked for thinking"


async def test_the_official_library_puts_a_stream_together(client: AsyncAnthropic) -> None:
    whole = await client.messages.create(**ASKED, tools=TOOLS, thinking={"type": "adaptive"})
    async with client.messages.stream(**ASKED, tools=TOOLS, thinking={"type": "adaptive"}) as stream:
        kinds = [event.type async for event in stream]
        streamed = await stream.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert {"thinking", "text", "input_json", "signature"} <= set(kinds)

    def plain(message: anthropic.types.Message) -> list[dict[str, Any]]:
        return [block.model_dump(exclude={"id"}) for block in message.content]

    assert plain(streamed) == plain(whole)
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert streamed.stop_reason == "tool_use"


async def test_a_stream_is_this_apis_events_to_the_letter(rig: Rig) -> None:
    async with rig.post({**ASKED, "stream": True}, PATH, {"anthropic-version": "2023-06-01"}) as response:
        assert response.content_type == "text/event-stream"
        assert response.headers["request-id"].startswith("req_")
        text = await response.text()
    *parts, end = text.split("\n\n")
    assert end == ""
    events = []
    for part in parts:
        if part.startswith(":"):
            continue
        name, data = part.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert events[0]["message"]["usage"]["input_tokens"] > 0


async def test_a_stop_sequence_is_named(client: AsyncAnthropic) -> None:
    answer = await client.messages.create(**ASKED, stop_sequences=["never", " me"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", " me")
    assert [block.model_dump()["text"] for block in answer.content] == ["Let"]
    cut = await client.messages.create(model="tiny", max_tokens=60, messages=MESSAGES)
    assert cut.stop_reason == "max_tokens"


async def test_tokens_are_counted_as_they_are_used(client: AsyncAnthropic) -> None:
    counted = await client.messages.count_tokens(model="tiny", messages=MESSAGES, system="Be brief.", tools=TOOLS)
    used = await client.messages.create(**ASKED, system="Be brief.", tools=TOOLS)
    assert counted.input_tokens == used.usage.input_tokens


async def test_errors_become_the_exceptions_of_the_official_library(client: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="not_found_error"):
        await client.messages.create(model="gpt", max_tokens=1, messages=MESSAGES)
    image: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    with pytest.raises(anthropic.BadRequestError, match="image"):
        await client.messages.create(model="tiny", max_tokens=1, messages=[{"role": "user", "content": [image]}])
    with pytest.raises(anthropic.BadRequestError, match=r"exceed context limit: \d+ \+ 40000 > 32768"):
        await client.messages.create(model="tiny", max_tokens=40_000, messages=MESSAGES, timeout=20)
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: 40018 tokens > 32768 maximum"):
        await client.messages.create(model="tiny", max_tokens=1, messages=[{"role": "user", "content": "x" * 40_000}])
    assert [model.id async for model in client.models.list()] == ["tiny"]


async def test_a_busy_server_is_overloaded_in_this_apis_words(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(server=Server(max_queue=1), simulated=Simulated(step_s=0.02))
    await rig.start()
    async with rig.post({**ASKED, "stream": True}, PATH) as first:
        await first.content.readline()
        async with rig.post(ASKED, PATH) as second:
            assert second.status == 529
            assert int(second.headers["Retry-After"]) > 0
            assert (await second.json())["error"]["type"] == "overloaded_error"


async def test_a_billing_header_that_changes_leaves_the_prompt_as_it_was(client: AsyncAnthropic) -> None:
    def system(nonce: str) -> list[Any]:
        header = f"x-anthropic-billing-header: cc_version=2; cch={nonce};"
        return [{"type": "text", "text": header}, {"type": "text", "text": "You are an agent."}]

    counts = [
        await client.messages.count_tokens(model="tiny", messages=MESSAGES, system=each)
        for each in (system("1"), system("a longer one"), "You are an agent.")
    ]
    assert len({count.input_tokens for count in counts}) == 1


async def test_a_real_tokenizer_is_asked_for_calls_too(
    make_rig: Callable[..., Rig], tiny_model: Path, tmp_path: Path
) -> None:
    script = TOOL_SCRIPT.partition("</think>\n\n")[2]
    folder = with_tools(tiny_model, tmp_path / "tools")
    rig = make_rig(model_path=folder, simulated=Simulated(script=script, vocabulary=VOCABULARY))
    await rig.start()
    async with rig.post({**ASKED, "tools": TOOLS}, PATH) as response:
        answer = await response.json()
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]

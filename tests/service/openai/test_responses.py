"""Responses through the official library: streamed, whole, and gone on with."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, get_type_hints

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall, ResponseReasoningItem
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from stoker.config import Simulated
from stoker.service.conversation import ToolCall, Turn
from stoker.service.openai.responses_request import ResponsesRequest
from stoker.service.openai.responses_store import Remembered, ResponseNotFound, ResponseStore
from stoker.service.schemas import parse
from tests.service.rig import Rig
from tests.service.scripts import ARGUMENTS, SAID, SCHEMA, THOUGHT, TOOL_SCRIPT

PATH = "/v1/responses"
TOOLS: list[FunctionToolParam] = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": True}]


@pytest.fixture
async def rig(make_rig: Callable[..., Rig]) -> Rig:
    rig = make_rig(simulated=Simulated(script=TOOL_SCRIPT))
    await rig.start()
    return rig


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=rig.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_the_official_library_gets_reasoning_text_and_a_call(client: AsyncOpenAI) -> None:
    response = await client.responses.create(model="tiny", input="The weather?", instructions="Be brief.", tools=TOOLS)
    reasoning, message, call = response.output
    assert isinstance(reasoning, ResponseReasoningItem)
    assert isinstance(call, ResponseFunctionToolCall)
    assert reasoning.content is not None
    assert (reasoning.content[0].text, response.output_text) == (THOUGHT, SAID)
    assert (message.type, call.name, json.loads(call.arguments)) == ("message", "get_weather", ARGUMENTS)
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens >= len(THOUGHT)
    answered = await client.responses.create(
        model="tiny",
        previous_response_id=response.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}],
        tools=TOOLS,
    )
    assert answered.usage is not None
    assert answered.usage.input_tokens > response.usage.input_tokens, "it has the conversation before it"


async def test_the_official_library_puts_a_stream_together(client: AsyncOpenAI) -> None:
    async with client.responses.stream(model="tiny", input="The weather?", tools=TOOLS) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    kinds = {event.type for event in events}
    for item in ("output_text", "reasoning_text", "function_call_arguments"):
        assert {f"response.{item}.delta", f"response.{item}.done"} <= kinds
    assert final.output_text == SAID
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
    assert await client.responses.create(model="tiny", previous_response_id=final.id, input="And then?")


async def test_an_answer_that_was_cut_is_incomplete(client: AsyncOpenAI) -> None:
    response = await client.responses.create(model="tiny", input="x", max_output_tokens=40)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


async def test_what_is_not_remembered_cannot_be_gone_on_with(client: AsyncOpenAI) -> None:
    forgotten = await client.responses.create(model="tiny", input="x", store=False)
    with pytest.raises(openai.NotFoundError) as caught:
        await client.responses.create(model="tiny", input="y", previous_response_id=forgotten.id)
    assert caught.value.param == "previous_response_id"


async def test_a_conversation_too_long_is_cut_only_where_that_is_asked_for(rig: Rig) -> None:
    turns = [{"role": "user", "content": f"{number}" + "x" * 6_000} for number in range(8)]
    body: dict[str, Any] = {"model": "tiny", "input": [{"role": "system", "content": "Stay."}, *turns]}
    async with rig.post(body, PATH) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "context_length_exceeded"
    async with rig.post(body | {"truncation": "auto", "max_output_tokens": 1000}, PATH) as response:
        answer = await response.json()
    # Five turns of 6,000 fit beside 1,000 tokens of answer into 32,768, and a sixth does not.
    assert 30_000 < answer["usage"]["input_tokens"] < 31_768


def test_items_become_turns_and_an_assistants_belong_together() -> None:
    items = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    ]
    request = parse(ResponsesRequest, json.dumps({"model": "m", "input": items}).encode())
    assert request.turns == (
        Turn("system", "Be brief."),
        Turn("user", "Look."),
        Turn("assistant", "Yes.", "Hm.", (ToolCall("c1", "look", "{}"),)),
        Turn("tool", "seen", call_id="c1"),
    )


def test_every_parameter_of_the_official_library_is_known() -> None:
    known = {*ResponsesRequest.model_fields, *ResponsesRequest.harmless, *ResponsesRequest.refused}
    assert set(get_type_hints(ResponseCreateParamsStreaming)) <= known


def said(text: str) -> Remembered:
    return Remembered(b"", (Turn("user", text),))


def test_the_response_that_was_used_least_recently_is_forgotten_first() -> None:
    store = ResponseStore(max_size=8)
    store.keep("a", said("1234"))
    store.keep("b", said("1234"))
    assert store.get("a", "id")
    store.keep("c", said("1234"))
    with pytest.raises(ResponseNotFound):
        store.get("b", "id")
    store.forget("a", "id")
    store.keep("d", said("1234"))
    assert store.get("c", "id"), "what is forgotten takes no room"
    store.keep("e", said("longer than all"))
    for name in "cde":
        with pytest.raises(ResponseNotFound):
            store.get(name, "id")


async def test_a_response_can_be_read_again_until_it_is_deleted(client: AsyncOpenAI, rig: Rig) -> None:
    whole = await client.responses.create(model="tiny", input="The weather?", tools=TOOLS, metadata={"for": "me"})
    assert await client.responses.retrieve(whole.id) == whole
    async with client.responses.stream(model="tiny", input="The weather?", tools=TOOLS) as stream:
        streamed = await stream.get_final_response()
    assert (await client.responses.retrieve(streamed.id)).output_text == streamed.output_text
    with pytest.raises(openai.BadRequestError, match="stream"):
        await client.responses.retrieve(whole.id, stream=True)
    await client.responses.delete(whole.id)
    for again in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError, match=whole.id):
            await again(whole.id)

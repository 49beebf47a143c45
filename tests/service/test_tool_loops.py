"""An agent's loop of three turns with each official library: call, result, call again; in every way they offer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from stoker.config import Simulated
from tests.service.rig import Rig
from tests.service.scripts import ARGUMENTS, SAID, SCHEMA, TOOL_SCRIPT

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS = 3
QUESTION = {"role": "user", "content": "The weather in Köln?"}
CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
RESPONSES_TOOLS: Any = [{"type": "function", "name": "get_weather", "parameters": SCHEMA}]
CLAUDE_TOOLS: Any = [{"name": "get_weather", "input_schema": SCHEMA}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(make_shared_rig: Callable[..., Rig]) -> Rig:
    rig = make_shared_rig(simulated=Simulated(script=TOOL_SCRIPT))
    await rig.start()
    return rig


class Chat:
    """Chat completions: the client repeats the whole conversation."""

    def __init__(self) -> None:
        self.messages: list[Any] = [QUESTION]

    def asked(self) -> dict[str, Any]:
        return {"model": "tiny", "messages": self.messages, "tools": CHAT_TOOLS}

    def take(self, completion: Any) -> int:
        """The answer and the tool's result become part of the conversation; returns the prompt's tokens."""
        (choice,) = completion.choices
        (call,) = choice.message.tool_calls
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", SAID)
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", ARGUMENTS)
        self.messages += [choice.message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
        return int(completion.usage.prompt_tokens)


class Responses:
    """Responses: the server remembers, and the client says what is new."""

    def __init__(self) -> None:
        self.news: dict[str, Any] = {"input": "The weather in Köln?"}

    def asked(self) -> dict[str, Any]:
        return {"model": "tiny", "tools": RESPONSES_TOOLS, **self.news}

    def take(self, response: Any) -> int:
        (call,) = [item for item in response.output if item.type == "function_call"]
        assert response.output_text == SAID
        assert (call.name, json.loads(call.arguments)) == ("get_weather", ARGUMENTS)
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
        self.news = {"input": [result], "previous_response_id": response.id}
        return int(response.usage.input_tokens)


class Messages:
    """Messages: content blocks, results in the user's turn."""

    def __init__(self) -> None:
        self.messages: list[Any] = [QUESTION]

    def asked(self) -> dict[str, Any]:
        thinking = {"type": "adaptive"}
        return {
            "model": "tiny",
            "max_tokens": 1000,
            "messages": self.messages,
            "tools": CLAUDE_TOOLS,
            "thinking": thinking,
        }

    def take(self, message: Any) -> int:
        thinking, text, call = message.content
        assert (thinking.type, text.text, message.stop_reason) == ("thinking", SAID, "tool_use")
        assert (call.name, call.input) == ("get_weather", ARGUMENTS)
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "Rain."}
        said = [block.model_dump() for block in message.content]
        self.messages += [{"role": "assistant", "content": said}, {"role": "user", "content": [result]}]
        return int(message.usage.input_tokens + message.usage.cache_read_input_tokens)


def of(client: Any, loop: Chat | Responses | Messages) -> tuple[Any, str]:
    """What of a library's client the loop talks to, and how its streams give the whole answer."""
    match loop:
        case Chat():
            return client.chat.completions, "get_final_completion"
        case Responses():
            return client.responses, "get_final_response"
        case Messages():
            return client.messages, "get_final_message"


def extra(loop: Chat | Responses | Messages) -> dict[str, Any]:
    return {"stream_options": {"include_usage": True}} if isinstance(loop, Chat) else {}


KINDS = pytest.mark.parametrize("kind", [Chat, Responses, Messages])


@KINDS
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_loop_of_three_turns(rig: Rig, kind: type[Chat | Responses | Messages], streamed: bool) -> None:
    loop, sizes = kind(), []
    base = rig.url if kind is Messages else rig.url + "/v1"
    library: Any = AsyncAnthropic if kind is Messages else AsyncOpenAI
    async with library(base_url=base, api_key="none", max_retries=0) as client:
        api, final = of(client, loop)
        for _ in range(TURNS):
            if streamed:
                async with api.stream(**loop.asked(), **extra(loop)) as stream:
                    sizes.append(loop.take(await getattr(stream, final)()))
            else:
                sizes.append(loop.take(await api.create(**loop.asked())))
    assert sizes == sorted(set(sizes)), "each turn has what was before it"


@KINDS
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_loop_of_three_turns_without_asyncio(
    rig: Rig, kind: type[Chat | Responses | Messages], streamed: bool
) -> None:
    def run() -> list[int]:
        loop, sizes = kind(), []
        base = rig.url if kind is Messages else rig.url + "/v1"
        library: Any = Anthropic if kind is Messages else OpenAI
        with library(base_url=base, api_key="none", max_retries=0) as client:
            api, final = of(client, loop)
            for _ in range(TURNS):
                if streamed:
                    with api.stream(**loop.asked(), **extra(loop)) as stream:
                        sizes.append(loop.take(getattr(stream, final)()))
                else:
                    sizes.append(loop.take(api.create(**loop.asked())))
        return sizes

    sizes = await asyncio.to_thread(run)
    assert sizes == sorted(set(sizes)), "each turn has what was before it"

"""What a request to `/v1/messages` and `/v1/messages/count_tokens` may say, and what it means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from ..conversation import Conversation, Tool, ToolCall, Turn
from ..sampling import Wishes
from ..schemas import MAX_MESSAGES, MAX_STOPS, MAX_TOOLS, JsonObject, Part
from .blocks import (
    Block,
    Blocks,
    TextBlock,
    TextBlocks,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    joined,
)


class Message(Part):
    """One turn of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Blocks

    def turns(self) -> Iterator[Turn]:
        """A user's message holds the tools' answers too; for templates they are turns of their own."""
        text: list[TextBlock] = []
        for block in self.content:
            if isinstance(block, ToolResultBlock):
                if text:
                    yield Turn(self.role, joined(text))
                    text = []
                yield Turn("tool", block.text, call_id=block.tool_use_id)
            elif isinstance(block, TextBlock):
                text.append(block)
        said = tuple(_calls(self.content))
        thought = "\n\n".join(block.thinking for block in self.content if isinstance(block, ThinkingBlock))
        if text or said or thought or not self.content:
            yield Turn(self.role, joined(text), reasoning=thought, calls=said)


class CustomTool(Part):
    """A tool of the client's own, the only kind. `strict` is a promise that is kept wherever a call is forced."""

    harmless = frozenset(
        {"cache_control", "strict", "eager_input_streaming", "defer_loading", "input_examples", "allowed_callers"}
    )

    name: Annotated[str, Field(min_length=1)]
    input_schema: JsonObject
    description: str | None = None
    type: Literal["custom"] | None = None

    @property
    def tool(self) -> Tool:
        return Tool(self.name, self.description, self.input_schema)


class ToolChoice(Part):
    """Which tool may or must be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None

    @model_validator(mode="after")
    def _a_name_where_one_is_chosen(self) -> ToolChoice:
        if (self.type == "tool") != (self.name is not None):
            raise PydanticCustomError("name_missing", "`name` belongs to the type `tool`, and only there")
        return self


class Thinking(Part):
    """Whether to think; how much is the model's own choice, so `budget_tokens` bounds nothing."""

    harmless = frozenset({"budget_tokens"})

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(Part):
    """The schema that the whole answer must match."""

    type: Literal["json_schema"]
    schema_: Annotated[JsonObject, Field(alias="schema")]


class OutputConfig(Part):
    """How hard to think, and what the answer must look like."""

    harmless = frozenset({"task_budget"})

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class CountTokensRequest(Part):
    """The body of `POST /v1/messages/count_tokens`."""

    harmless = frozenset(
        {
            *("cache_control", "context_management", "diagnostics", "inference_geo", "metadata"),
            *("service_tier", "speed", "user_profile_id", "workspace_id"),
        }
    )
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {"container": (), "mcp_servers": ([],)}

    model: str
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    system: TextBlocks | None = None
    tools: Annotated[list[CustomTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None

    @model_validator(mode="after")
    def _something_to_answer(self) -> CountTokensRequest:
        if self.messages[-1].role == "assistant":
            raise PydanticCustomError("prefill", "The last message must be a user's: prefilled answers are not served")
        return self

    @property
    def thinks(self) -> bool:
        """As the API has it, nobody thinks unless asked to."""
        return self.thinking is not None and self.thinking.type != "disabled"

    @property
    def shows_thinking(self) -> bool:
        return self.thinks and self.thinking is not None and self.thinking.display != "omitted"

    @property
    def conversation(self) -> Conversation:
        system = [] if self.system is None else [Turn("system", joined(self.system))]
        return Conversation(
            turns=(*system, *(turn for message in self.messages for turn in message.turns())),
            tools=tuple(tool.tool for tool in self.tools or ()),
            thinking=self.thinks,
            effort=None if self.output_config is None else self.output_config.effort,
        )


class MessagesRequest(CountTokensRequest):
    """The body of `POST /v1/messages`."""

    max_tokens: Annotated[int, Field(ge=1)]
    stream: bool | None = None
    stop_sequences: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=MAX_STOPS)] | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None

    @property
    def wishes(self) -> Wishes:
        return Wishes(temperature=self.temperature, top_p=self.top_p, top_k=self.top_k)


def _calls(content: list[Block]) -> Iterator[ToolCall]:
    for block in content:
        if isinstance(block, ToolUseBlock):
            yield ToolCall(block.id, block.name, json.dumps(block.input, ensure_ascii=False))

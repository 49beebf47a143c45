"""What a request to `/v1/chat/completions` may say, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from ...engine.protocol import Priority
from ..conversation import Conversation, Tool, ToolCall, Turn
from ..schemas import MAX_MESSAGES, MAX_TOOLS, JsonObject, Part, text_parts
from .request import SamplingRequest, TokenCount, priority_of

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class TextPart(Part):
    """One piece of a message's content."""

    harmless = frozenset({"annotations", "cache_control", "prompt_cache_breakpoint"})

    type: Literal["text"]
    text: str


class CalledFunction(Part):
    """The name and the JSON text of the arguments of an earlier call."""

    harmless = frozenset({"parsed_arguments"})

    name: str
    arguments: str


class MessageToolCall(Part):
    """A call that the assistant made earlier."""

    harmless = frozenset({"index"})

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


_SILENT: JsonDict = {"properties": {"role": {"const": "assistant"}}}
_SPEAKING: JsonDict = {"required": ["content"], "properties": {"content": {"type": ["string", "array"]}}}


class Message(Part):
    """One turn of the conversation. `reasoning_content` is what an assistant thought, for templates that keep it."""

    harmless = frozenset({"annotations", "cache_control", "parsed", "provider_specific_fields", "thinking_blocks"})
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {"audio": (), "function_call": (), "refusal": ()}
    model_config = ConfigDict(json_schema_extra={"anyOf": [_SILENT, _SPEAKING]})

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[
        list[TextPart] | None, BeforeValidator(text_parts, json_schema_input_type=str | list[TextPart] | None)
    ] = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[MessageToolCall] | None = None
    reasoning_content: str | None = None

    @model_validator(mode="after")
    def _only_an_assistant_may_say_nothing(self) -> Message:
        if self.content is None and self.role != "assistant":
            raise PydanticCustomError("content_missing", "A message of this role needs content")
        return self

    @property
    def turn(self) -> Turn:
        return Turn(
            # Chat templates know the role by its older name.
            role="system" if self.role == "developer" else self.role,
            text="".join(part.text for part in self.content or ()),
            reasoning=self.reasoning_content or "",
            calls=tuple(
                ToolCall(call.id, call.function.name, call.function.arguments) for call in self.tool_calls or ()
            ),
            call_id=self.tool_call_id,
            name=self.name,
        )


class FunctionDefinition(Part):
    """A function that may be called. `strict` is a promise that is kept wherever a call is forced."""

    harmless = frozenset({"strict"})

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: JsonObject | None = None


class FunctionTool(Part):
    """A tool; functions are the only kind."""

    harmless = frozenset({"cache_control"})

    type: Literal["function"]
    function: FunctionDefinition

    @property
    def tool(self) -> Tool:
        return Tool(self.function.name, self.function.description, self.function.parameters or {"type": "object"})


class ChosenFunction(Part):
    """The name of the function that must be called."""

    name: str


class NamedTool(Part):
    """The one tool that must be called."""

    type: Literal["function"]
    function: ChosenFunction


class JsonSchema(Part):
    """The schema that the whole answer must match."""

    harmless = frozenset({"name", "description", "strict"})

    schema_: Annotated[JsonObject, Field(alias="schema")]


class ResponseFormat(Part):
    """What the whole answer must look like."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _a_schema_where_one_is_named(self) -> ResponseFormat:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise PydanticCustomError(
                "schema_missing", "`json_schema` belongs to the type `json_schema`, and only there"
            )
        return self


class TemplateOptions(Part):
    """The chat template's switch for reasoning, as other servers call it."""

    enable_thinking: bool | None = None


class ChatCompletionRequest(SamplingRequest):
    """The body of `POST /v1/chat/completions`."""

    harmless = frozenset(
        {
            *("user", "metadata", "safety_identifier", "prediction"),
            *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        }
    )
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "audio": (),
        "function_call": ("none", "auto"),
        "functions": ([],),
        "modalities": (["text"],),
        "moderation": (),
        "store": (False,),
        "verbosity": ("medium",),
        "web_search_options": (),
    }

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: TokenCount = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: TemplateOptions | None = None
    service_tier: str | None = None

    @property
    def priority(self) -> Priority:
        return priority_of(self.service_tier)

    @property
    def output_tokens(self) -> int | None:
        """How many tokens it wants at most; the newer name wins."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def conversation(self) -> Conversation:
        thinking, effort = thinking_of(self.reasoning_effort)
        if self.chat_template_kwargs is not None and self.chat_template_kwargs.enable_thinking is not None:
            thinking = self.chat_template_kwargs.enable_thinking
        return Conversation(
            turns=tuple(message.turn for message in self.messages),
            tools=tuple(tool.tool for tool in self.tools or ()),
            thinking=thinking,
            effort=effort,
        )


def thinking_of(effort: Effort | None) -> tuple[bool | None, str | None]:
    """Whether to think, and how hard, for templates that know the one or the other."""
    if effort is None:
        return None, None
    return (False, None) if effort == "none" else (True, effort)

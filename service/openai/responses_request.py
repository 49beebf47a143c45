"""What a request to `/v1/responses` may say, and what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from ...engine.protocol import Priority
from ..conversation import Tool, ToolCall, Turn
from ..sampling import Wishes
from ..schemas import MAX_MESSAGES, MAX_TOOLS, JsonObject, Part, text_parts
from .chat_request import Effort
from .request import StreamOptions, Temperature, TokenCount, TopP, priority_of


class InputText(Part):
    """Words; an assistant's are `output_text`."""

    harmless = frozenset({"annotations", "logprobs", "prompt_cache_breakpoint"})

    type: Literal["input_text", "output_text", "text"]
    text: str


Texts = Annotated[list[InputText], BeforeValidator(text_parts, json_schema_input_type=str | list[InputText])]


class MessageItem(Part):
    """One message."""

    harmless = frozenset({"id", "status", "phase"})

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Texts

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)


class FunctionCallItem(Part):
    """A call that the assistant made earlier."""

    harmless = frozenset({"id", "status"})
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {"async": (False,), "caller": (), "namespace": ()}

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class FunctionOutputItem(Part):
    """What a function answered."""

    harmless = frozenset({"id", "status"})

    type: Literal["function_call_output"]
    call_id: str
    output: Texts


class ReasoningText(Part):
    """What was thought."""

    type: Literal["reasoning_text", "summary_text"]
    text: str


class ReasoningItem(Part):
    """What an assistant thought earlier."""

    harmless = frozenset({"id", "status", "encrypted_content"})

    type: Literal["reasoning"]
    summary: list[ReasoningText] | None = None
    content: list[ReasoningText] | None = None


def _kind(item: Any) -> str:
    """A message may leave out that it is one."""
    kind = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", "message")
    return str(kind)


Item = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionOutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(
        _kind,
        custom_error_type="item_type",
        custom_error_message="Input should be a message, reasoning, a function_call or a function_call_output",
    ),
]


def _items(given: Any) -> Any:
    """A string is the short form of one user's message."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


class FunctionTool(Part):
    """A function, the only kind of tool. `strict` is a promise that is kept wherever a call is forced."""

    harmless = frozenset({"strict", "defer_loading", "output_schema", "allowed_callers"})
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {"async": (False,)}

    type: Literal["function"]
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: JsonObject | None = None

    @property
    def tool(self) -> Tool:
        return Tool(self.name, self.description, self.parameters or {"type": "object"})


class NamedFunction(Part):
    """The one function that must be called."""

    type: Literal["function"]
    name: str


class TextFormat(Part):
    """What the whole answer must look like."""

    harmless = frozenset({"name", "description", "strict"})

    type: Literal["text", "json_object", "json_schema"]
    schema_: Annotated[JsonObject | None, Field(alias="schema")] = None


class TextConfig(Part):
    """The form of the answer."""

    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {"verbosity": ("medium",)}

    format: TextFormat | None = None


class ReasoningConfig(Part):
    """How hard to think. There are no summaries; all of it is in the answer."""

    harmless = frozenset({"summary", "generate_summary", "context", "mode"})

    effort: Effort | None = None


class ResponsesRequest(Part):
    """The body of `POST /v1/responses`."""

    harmless = frozenset(
        {
            *("include", "max_tool_calls", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
            *("safety_identifier", "user", "image", "access_programs", "client_metadata"),
        }
    )
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "background": (False,),
        "background_options": (),
        "context_management": ([],),
        "conversation": (),
        "moderation": (),
        "prompt": (),
        "top_logprobs": (0,),
    }

    model: str
    input: Annotated[
        list[Item],
        Field(min_length=1, max_length=MAX_MESSAGES),
        BeforeValidator(_items, json_schema_input_type=str | list[Item]),
    ]
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: TokenCount = None
    temperature: Temperature = None
    top_p: TopP = None
    tools: Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, str] | None = None
    service_tier: str | None = None

    @property
    def priority(self) -> Priority:
        return priority_of(self.service_tier)

    @property
    def wishes(self) -> Wishes:
        return Wishes(temperature=self.temperature, top_p=self.top_p)

    @property
    def effort(self) -> Effort | None:
        return None if self.reasoning is None else self.reasoning.effort

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(_turns(self.input))


def _turns(items: Sequence[Item]) -> Iterator[Turn]:
    """What an assistant thought, said and called between two messages of others is one turn for templates."""
    reasoning, text, calls = "", "", []
    for item in items:
        match item:
            case ReasoningItem():
                reasoning += "".join(part.text for part in item.content or item.summary or ())
            case FunctionCallItem():
                calls.append(ToolCall(item.call_id, item.name, item.arguments))
            case MessageItem(role="assistant"):
                text += item.text
            case _:
                if reasoning or text or calls:
                    yield Turn("assistant", text, reasoning, tuple(calls))
                    reasoning, text, calls = "", "", []
                yield _others_turn(item)
    if reasoning or text or calls:
        yield Turn("assistant", text, reasoning, tuple(calls))


def _others_turn(item: MessageItem | FunctionOutputItem) -> Turn:
    if isinstance(item, FunctionOutputItem):
        return Turn("tool", "".join(part.text for part in item.output), call_id=item.call_id)
    return Turn("user" if item.role == "user" else "system", item.text)

"""What a request to the OpenAI API may say.

Three kinds of field: those modelled here are served; those in `HARMLESS` change nothing in the answer and are
accepted; those in `NOT_SERVED` are accepted only with a value that asks for nothing. Anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from .errors import InvalidRequest, InvalidValue, MalformedJson, UnknownParameter, UnsupportedParameter

HARMLESS = frozenset(
    {"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls"}
)
NOT_SERVED: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "moderation": (),
    "n": (1,),
    "prediction": (),
    "presence_penalty": (0,),
    "reasoning_effort": (),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}
HARMLESS_IN_MESSAGE = frozenset({"annotations"})
NOT_SERVED_IN_MESSAGE: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "function_call": (),
    "refusal": (),
    "tool_calls": ([],),
}

MAX_STOPS = 16


def _parts(content: Any) -> Any:
    """A string is the short form of one text part."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if content is None or isinstance(content, list):
        return content
    raise PydanticCustomError("content_type", "Input should be a string or a list of text parts")


def _stops(stop: Any) -> Any:
    """A string is the short form of a list of one."""
    if isinstance(stop, str):
        return [stop]
    if stop is None or isinstance(stop, list):
        return stop
    raise PydanticCustomError("stop_type", "Input should be a string or a list of strings")


class Part(BaseModel):
    """Immutable and strict: JSON's own types, nothing coerced."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)


class TextPart(Part):
    """One piece of a message's content."""

    type: Literal["text"]
    text: str


class Message(Part):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[list[TextPart] | None, BeforeValidator(_parts)] = None
    name: str | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _only_an_assistant_may_say_nothing(self) -> Message:
        if self.content is None and self.role != "assistant":
            raise PydanticCustomError("content_missing", "A message of this role needs content")
        return self

    @property
    def text(self) -> str:
        """All its text parts together."""
        return "".join(part.text for part in self.content or ())


class StreamOptions(Part):
    """Extras of a stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatCompletionRequest(Part):
    """The body of `POST /v1/chat/completions`."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]] | None, Field(max_length=MAX_STOPS), BeforeValidator(_stops)
    ] = None

    @property
    def output_tokens(self) -> int | None:
        """How many tokens it wants at most; the newer name wins."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


def parse_chat_completion(body: bytes) -> ChatCompletionRequest:
    """Read a request. Raises the `InvalidRequest` that names the first thing wrong with it."""
    try:
        request = ChatCompletionRequest.model_validate_json(body)
    except ValidationError as error:
        raise _explain(error.errors(include_url=False)[0]) from error
    _check_extra(request, HARMLESS, NOT_SERVED, "")
    for number, message in enumerate(request.messages):
        _check_extra(message, HARMLESS_IN_MESSAGE, NOT_SERVED_IN_MESSAGE, f"messages.{number}.")
        for place, part in enumerate(message.content or ()):
            _check_extra(part, frozenset(), {}, f"messages.{number}.content.{place}.")
    return request


def _check_extra(part: Part, harmless: frozenset[str], not_served: Mapping[str, tuple[Any, ...]], path: str) -> None:
    for name, value in (part.model_extra or {}).items():
        if name in harmless:
            continue
        if name not in not_served:
            raise UnknownParameter(f"unknown parameter `{path}{name}`; leave it out", param=path + name)
        if value is not None and value not in not_served[name]:
            raise UnsupportedParameter(f"`{path}{name}` is not served with this value; leave it out", param=path + name)


def _explain(problem: ErrorDetails) -> InvalidRequest:
    if problem["type"] == "json_invalid":
        return MalformedJson(f"the body is not valid JSON: {problem['msg']}")
    param = ".".join(str(place) for place in problem["loc"]) or None
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return InvalidValue(f"`{param}`: {message}" if param else message, param=param)

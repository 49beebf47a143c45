"""What every request body has in common: strict reading, and a name for whatever is wrong with it.

Three kinds of field: those that a class models are served; those in its `harmless` change nothing in the answer and
are accepted; those in its `refused` are accepted only with a value that asks for nothing. Anything else is unknown,
and refused by name as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, from_json

from .errors import InvalidRequest, InvalidValue, MalformedJson, UnknownParameter, UnsupportedParameter

MAX_STOPS = 16
MAX_PROBLEMS = 20
"""Of all that is wrong with a request, so many are looked at."""
NO_TEXT = frozenset(
    {"image", "image_url", "input_image", "input_audio", "input_file", "file", "document", "container_upload"}
)
"""What the APIs have beside text; refused by name, so that an agent knows to leave it out."""
MAX_MESSAGES = 10_000
MAX_TOOLS = 1_000
MAX_NESTING = 100
"""Levels of free-form JSON, such as a tool's schema. The parser itself gives up at 200, wherever they are."""


class Part(BaseModel):
    """Immutable and strict: JSON's own types, nothing coerced."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)

    harmless: ClassVar[frozenset[str]] = frozenset()
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema says which fields change nothing, and which values of the refused ones are let pass."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        properties = schema.setdefault("properties", {})
        for name in sorted(cls.harmless):
            properties[name] = {"description": "Accepted; it changes nothing here."}
        for name, values in cls.refused.items():
            properties[name] = {"description": "Not served; leave it out.", "enum": [*values, None]}
        schema["additionalProperties"] = False
        return schema


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    """What may be written as JSON again, and be walked through by others."""
    level: list[Any] = [value]
    for _ in range(MAX_NESTING):
        level = [below for each in level for below in (each.values() if isinstance(each, dict) else each)]
        if any(isinstance(each, float) and not math.isfinite(each) for each in level):
            raise PydanticCustomError("finite_number", "Input should hold finite numbers")
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            return value
    raise PydanticCustomError("too_deep", "Input should be nested at most {most} levels deep", {"most": MAX_NESTING})


JsonObject = Annotated[dict[str, Any], AfterValidator(_bounded)]

P = TypeVar("P", bound=Part)


def parse(kind: type[P], body: bytes) -> P:
    """Read a request. Raises the `InvalidRequest` that names what is wrong with it."""
    try:
        request = kind.model_validate_json(body)
    except ValidationError as error:
        raise _explain(error.errors(include_url=False)[:MAX_PROBLEMS], body) from error
    _check_extra(request, "")
    return request


def text_parts(content: Any) -> Any:
    """A string is the short form of one text part."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if content is None:
        return None
    if isinstance(content, list):
        for part in content:
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in NO_TEXT:
                told = "Content of type `{kind}` is not served: models read text only here"
                raise PydanticCustomError("no_text", told, {"kind": kind})
        return content
    raise PydanticCustomError("content_type", "Input should be a string or a list of content parts")


def strings(value: Any) -> Any:
    """A string is the short form of a list of one."""
    if isinstance(value, str):
        return [value]
    if value is None or isinstance(value, list):
        return value
    raise PydanticCustomError("strings_type", "Input should be a string or a list of strings")


def _check_extra(part: Part, path: str) -> None:
    for name, value in (part.model_extra or {}).items():
        if name in part.harmless:
            continue
        if name not in part.refused:
            raise UnknownParameter(f"unknown parameter `{path}{name}`; leave it out", param=path + name)
        if value is not None and value not in part.refused[name]:
            raise UnsupportedParameter(f"`{path}{name}` is not served with this value; leave it out", param=path + name)
    for name in type(part).model_fields:
        for below, place in _parts_in(getattr(part, name), path + name):
            _check_extra(below, place + ".")


def _parts_in(value: Any, path: str) -> Iterator[tuple[Part, str]]:
    if isinstance(value, Part):
        yield value, path
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _parts_in(item, f"{path}.{number}")


def _explain(problems: Sequence[ErrorDetails], body: bytes) -> InvalidRequest:
    """The innermost one: of the kinds that a value could have been, it names the one that was meant."""
    if problems[0]["type"] == "json_invalid":
        return MalformedJson(f"the body is not valid JSON: {problems[0]['msg']}")
    value = from_json(body)
    places = [list(_path(problem, value)) for problem in problems]
    innermost = max(range(len(problems)), key=lambda number: len(places[number]))
    problem, param = problems[innermost], ".".join(places[innermost]) or None
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return InvalidValue(f"`{param}`: {message}" if param else message, param=param)


def _path(problem: ErrorDetails, value: Any) -> Iterator[str]:
    """Where in the body the problem is: its place without what only our models know, such as kinds of a union."""
    for place in problem["loc"]:
        known = isinstance(value, dict) and place in value
        if known or (isinstance(value, list) and isinstance(place, int) and place < len(value)):
            value = value[place]
            yield str(place)
    if problem["type"] == "missing":
        yield str(problem["loc"][-1])

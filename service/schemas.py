"""What every request body has in common: strict reading, and a name for whatever is wrong with it.

Three kinds of field: those that a class models are served; those in its `harmless` change nothing in the answer and
are accepted; those in its `refused` are accepted only with a value that asks for nothing. Anything else is unknown,
and refused by name as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from .errors import InvalidRequest, InvalidValue, MalformedJson, UnknownParameter, UnsupportedParameter

MAX_STOPS = 16


class Part(BaseModel):
    """Immutable and strict: JSON's own types, nothing coerced."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)

    harmless: ClassVar[frozenset[str]] = frozenset()
    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = {}


P = TypeVar("P", bound=Part)


def parse(kind: type[P], body: bytes) -> P:
    """Read a request. Raises the `InvalidRequest` that names the first thing wrong with it."""
    try:
        request = kind.model_validate_json(body)
    except ValidationError as error:
        raise _explain(error.errors(include_url=False)[0]) from error
    _check_extra(request, "")
    return request


def text_parts(content: Any) -> Any:
    """A string is the short form of one text part."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if content is None or isinstance(content, list):
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


def _explain(problem: ErrorDetails) -> InvalidRequest:
    if problem["type"] == "json_invalid":
        return MalformedJson(f"the body is not valid JSON: {problem['msg']}")
    param = ".".join(str(place) for place in problem["loc"]) or None
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return InvalidValue(f"`{param}`: {message}" if param else message, param=param)

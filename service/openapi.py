"""`GET /openapi.json`: the API described as OpenAPI 3.1, generated from the models that read its requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .. import __version__
from .anthropic import answers as anthropic
from .anthropic.messages import FAMILY
from .anthropic.request import CountTokensRequest, MessagesRequest
from .context import CONTEXT, DEFAULT_MODEL
from .openai import answers as openai
from .openai.chat_request import ChatCompletionRequest
from .openai.completions import CompletionRequest
from .openai.responses_request import ResponsesRequest

PATH = "/openapi.json"

Schema = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """What one path does with one method. `errors` are the statuses of its refusals, in the form of `error`."""

    method: str
    path: str
    summary: str
    answer: type[BaseModel]
    errors: tuple[int, ...]
    error: type[BaseModel] = openai.Error
    request: type[BaseModel] | None = None
    streams: bool = False


READ = (401, 500)
LOOK_UP = (401, 404, 500)
ASK = (400, 401, 404, 413, 422, 429, 500, 503)
ASK_ANTHROPIC = (400, 401, 404, 413, 429, 500, 529)
OPERATIONS = (
    Operation(
        "post",
        "/v1/chat/completions",
        "The next turn of a conversation",
        openai.ChatCompletion,
        ASK,
        request=ChatCompletionRequest,
        streams=True,
    ),
    Operation(
        "post",
        "/v1/completions",
        "A text gone on with as it stands",
        openai.Completion,
        ASK,
        request=CompletionRequest,
        streams=True,
    ),
    Operation(
        "post",
        "/v1/responses",
        "The next turn of a conversation that is remembered",
        openai.Response,
        ASK,
        request=ResponsesRequest,
        streams=True,
    ),
    Operation("get", "/v1/responses/{response_id}", "A response that is remembered", openai.Response, LOOK_UP),
    Operation("delete", "/v1/responses/{response_id}", "Forget a response", openai.DeletedResponse, LOOK_UP),
    Operation(
        "post",
        "/v1/messages",
        "The next turn of a conversation",
        anthropic.Message,
        ASK_ANTHROPIC,
        anthropic.Error,
        MessagesRequest,
        streams=True,
    ),
    Operation(
        "post",
        "/v1/messages/count_tokens",
        "The length of a prompt",
        anthropic.TokenCount,
        ASK_ANTHROPIC,
        anthropic.Error,
        CountTokensRequest,
    ),
    Operation("get", "/v1/models", "The models that are served", openai.ModelList, READ),
    Operation("get", "/v1/models/{model}", "One model", openai.Model, LOOK_UP),
)
EVENT: Schema = {
    "description": "One of the server-sent events; its data is JSON, or `[DONE]` at the end of OpenAI's older two.",
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
ABOUT = {
    400: "What cannot be understood or is not served here; the message names the field",
    401: "No API key, or one that is not known here",
    404: "No such model, response or path",
    413: "The body is too large",
    422: "A field has a wrong type or value; the message names it",
    429: "Too many requests, of this client or of all",
    500: "A bug, or a request that crashes the engine; the message says which",
    503: "Not now: the engine is starting, or load is being shed",
    529: "Not now: too many requests, the engine is starting, or load is being shed",
}
RETRY_LATER = frozenset({429, 503, 529})


async def openapi(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    return web.json_response(document(context.model_name, needs_key=context.keys is not None))


def document(model_name: str, *, needs_key: bool) -> Schema:
    """The whole description; a request's `model` is one of the names that this server answers to."""
    components, references = _schemas()
    _name_the_models(components, references, model_name)
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, references)
    described: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "Stoker", "version": __version__},
        "paths": paths | _probes(),
        "components": {"schemas": components},
    }
    if needs_key:
        described["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        }
        described["security"] = [{"bearer": []}, {"header": []}]
    return described


def _schemas() -> tuple[Schema, dict[type[BaseModel], Schema]]:
    """Every schema by its name, and where each model's is."""
    used = {kind for each in OPERATIONS for kind in (each.request, each.answer, each.error) if kind is not None}
    ordered = sorted(used, key=lambda kind: (kind.__module__, kind.__name__))
    references, schemas = models_json_schema(
        [(kind, "validation") for kind in ordered], ref_template="#/components/schemas/{model}"
    )
    return schemas["$defs"], {kind: references[kind, "validation"] for kind in ordered}


def _name_the_models(components: Schema, references: dict[type[BaseModel], Schema], model_name: str) -> None:
    served: Schema = {"type": "string", "enum": [model_name, DEFAULT_MODEL]}
    any_claude: Schema = {"anyOf": [served, {"type": "string", "pattern": f"^{FAMILY}"}]}
    for operation in OPERATIONS:
        if operation.request is not None:
            name = references[operation.request]["$ref"].rpartition("/")[2]
            components[name]["properties"]["model"] = any_claude if operation.error is anthropic.Error else served


def _operation(operation: Operation, references: dict[type[BaseModel], Schema]) -> Schema:
    content: Schema = {"application/json": {"schema": references[operation.answer]}}
    if operation.streams:
        content["text/event-stream"] = {"schema": EVENT}
    responses = {"200": {"description": "The answer", "content": content, "headers": _headers(operation)}}
    for status in operation.errors:
        responses[str(status)] = {
            "description": ABOUT[status],
            "content": {"application/json": {"schema": references[operation.error]}},
            "headers": {"Retry-After": _header("Seconds to wait", "integer")} if status in RETRY_LATER else {},
        }
    described: Schema = {"summary": operation.summary, "responses": responses}
    if operation.request is not None:
        body = {"application/json": {"schema": references[operation.request]}}
        described["requestBody"] = {"required": True, "content": body}
    if names := list(_names_in(operation.path)):
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in names
        ]
    return described


def _headers(operation: Operation) -> Schema:
    headers = {"x-request-id": _header("The request's id, as in the log")}
    if operation.streams:
        headers["x-stoker-cache"] = _header("What the prefix cache did: `hit=1200/1500; tier=ram`")
        headers["server-timing"] = _header("Milliseconds of queue, prefill and decode")
    return headers


def _header(description: str, kind: str = "string") -> Schema:
    return {"description": description, "schema": {"type": kind}}


def _names_in(path: str) -> Iterator[str]:
    return (part[1:-1] for part in path.split("/") if part.startswith("{"))


def _probes() -> dict[str, Schema]:
    """What monitors look at; it never needs a key."""
    ready = {"200": {"description": "It can answer"}, "503": {"description": "It cannot, and why"}}
    probes = {
        "/health/live": ("Whether the service answers", {"200": {"description": "It does"}}),
        "/health/ready": ("Whether a request can be answered now", ready),
        "/metrics": ("Prometheus metrics", {"200": {"description": "In Prometheus' or OpenMetrics' format"}}),
        PATH: ("This description", {"200": {"description": "OpenAPI 3.1"}}),
    }
    return {
        path: {"get": {"summary": summary, "responses": responses, "security": []}}
        for path, (summary, responses) in probes.items()
    }

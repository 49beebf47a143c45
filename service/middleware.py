"""What all paths share: every error in its API's form, a request id, one log line and one count a request."""

from __future__ import annotations

import re
import time
import uuid

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from . import telemetry
from .anthropic import errors as anthropic
from .auth import SHOWN
from .caller import WATCHDOG
from .context import CONTEXT
from .errors import (
    BodyTooLarge,
    InternalError,
    MethodNotAllowed,
    RouteNotFound,
    ServiceError,
    ShuttingDown,
    UnreadableRequest,
)
from .internal import shows_admin_token
from .observer import CANCELLED
from .trace import Span, Trace, remote_of, tracing

GUARDED_PATHS = "/v1/"
ANTHROPIC_PATHS = "/v1/messages"
PROBES = frozenset({"/", "/health/live", "/health/ready", "/internal/vitals", "/metrics"})
STATUS_PAGE = "/page/"
SERVER_ERRORS = 500
CLIENT_GONE = 499
"""Nobody is left to see this status (nginx's, for a client that closed its connection); it is for log and metrics."""

GIVEN_ID = re.compile(r"[\w.:-]{1,128}")
"""A request's id that a client may choose; it goes to logs and headers, so it is nothing but a name."""
MODEL = web.RequestKey("model", str)
"""The model that a request is for, once that is known."""
REFUSED_BY = web.RequestKey("refused_by", ServiceError)
"""The error that is the whole answer."""
BROKEN_BY = web.RequestKey("broken_by", ServiceError)
"""What ended a stream after its status had been sent."""
REQUEST_ID = web.RequestKey("request_id", str)
TRACE = web.RequestKey("trace", Trace)
TRACEPARENT = "traceparent"

log = structlog.get_logger(__name__)


@web.middleware
async def answer_for_everything(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The one middleware."""
    given = request.headers.get("x-request-id", "")
    request[REQUEST_ID] = given if GIVEN_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"
    if not request.path.startswith(GUARDED_PATHS):
        return await _answer_and_record(request, handler)
    traces = request.app[CONTEXT].traces
    name = f"{request.method} {_endpoint(request)}"
    remote = remote_of(request.headers.get(TRACEPARENT))
    trace = request[TRACE] = traces.begin(name, request[REQUEST_ID], time.monotonic(), remote)
    with tracing(trace), structlog.contextvars.bound_contextvars(**trace.names):
        try:
            return await _answer_and_record(request, handler)
        finally:
            traces.end(trace, time.monotonic())


async def _answer_and_record(request: web.Request, handler: Handler) -> web.StreamResponse:
    began = time.monotonic()
    status = CLIENT_GONE
    try:
        response = await _answer(request, handler)
        status = request[BROKEN_BY].status if BROKEN_BY in request else response.status
    finally:
        _record(request, status, time.monotonic() - began)
    return response


async def name_the_request(request: web.Request, response: web.StreamResponse) -> None:
    """Signal handler: headers that every response has, streams too; each API has its own name for the id."""
    response.headers["x-request-id"] = response.headers["request-id"] = request.get(REQUEST_ID, "")
    if TRACE in request:
        response.headers[TRACEPARENT] = request[TRACE].traceparent


def as_service_error(request: web.Request, error: Exception) -> ServiceError:
    """What a client is told of any error. One that nobody foresaw is logged, and not shown."""
    match error:
        case ServiceError():
            return error
        case web.HTTPNotFound():
            return RouteNotFound(f"no such path: {request.path}; see GET /v1/models for what is served")
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            return MethodNotAllowed(f"{request.method} is not allowed here; {request.path} takes {allowed}")
        case web.HTTPRequestEntityTooLarge():
            bound = request.app[CONTEXT].server.max_body_bytes
            return BodyTooLarge(f"the body is over the bound of {bound} bytes; send less")
        case web.RequestPayloadError():
            return UnreadableRequest("the body is not what its head says: chunks, length or encoding are wrong")
        case _:
            log.error("request_failed", request_id=request[REQUEST_ID], exc_info=error)
            return InternalError()


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        context = request.app[CONTEXT]
        request[WATCHDOG] = shows_admin_token(request, context)
        keys = None if request[WATCHDOG] else context.keys
        # A browser asks whether it may before it shows a key.
        if keys is not None and request.path.startswith(GUARDED_PATHS) and request.method != "OPTIONS":
            request[SHOWN] = keys.check(request.headers)
        return await handler(request)
    except ConnectionResetError:
        raise
    except Exception as error:
        request[REFUSED_BY] = as_service_error(request, error)
        return _error_response(request, request[REFUSED_BY])


def _error_response(request: web.Request, error: ServiceError) -> web.Response:
    if request.path.startswith(ANTHROPIC_PATHS):
        body, status = anthropic.body(error, request[REQUEST_ID]), anthropic.status(error)
    else:
        body, status = error.body(), error.status
    response = web.json_response(body, status=status)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, ShuttingDown):
        response.force_close()
    return response


def _record(request: web.Request, status: int, duration_s: float) -> None:
    endpoint = _endpoint(request)
    if TRACE in request:
        _describe(request[TRACE].root, request, endpoint, status)
    # They come several times a second, or only to look, and would push everything else out of the log.
    if endpoint in PROBES or endpoint.startswith(STATUS_PAGE):
        return
    log.info(
        "request",
        method=request.method,
        path=request.path,
        status=status,
        ms=round(duration_s * 1000, 1),
        request_id=request[REQUEST_ID],
    )
    if not request.get(WATCHDOG):
        request.app[CONTEXT].vitals.answered(status)
    request.app[CONTEXT].metrics.requests.labels(request.get(MODEL, ""), endpoint, str(status)).inc()


def _endpoint(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return "other" if resource is None else resource.canonical


def _describe(root: Span, request: web.Request, endpoint: str, status: int) -> None:
    root.attributes = {
        telemetry.HTTP_METHOD: request.method,
        telemetry.HTTP_ROUTE: endpoint,
        telemetry.URL_PATH: request.path,
        telemetry.HTTP_STATUS: status,
        telemetry.REQUEST_ID: request[REQUEST_ID],
    }
    if request.get(WATCHDOG):
        root.attributes[telemetry.CANARY] = True
    error = request.get(BROKEN_BY) or request.get(REFUSED_BY)
    if error is not None or status == CLIENT_GONE:
        root.attributes[telemetry.ERROR_TYPE] = CANCELLED if error is None else error.code
    if error is not None and (status >= SERVER_ERRORS or BROKEN_BY in request):
        root.error = str(error)

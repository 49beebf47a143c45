"""Everything that a client can be told when something is wrong: one class a cause, each with its HTTP form.

400 is for what cannot be understood or is not served here, 422 for a field with a wrong type or value; both name the
field in `param`. Overload and restarts are 429 and 503 with `Retry-After`, never 400: agents would take that for a
fault of their request and shorten it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Excess:
    """By how much a request does not fit: its prompt, the output it asks for, the model's window."""

    prompt_tokens: int
    asked_tokens: int
    window_tokens: int


class ServiceError(Exception):
    """Base of all. The message is for the client: what happened, with which value, and the way out."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"
    retry_after_s: int | None = None
    """Seconds after which sending it again is worth a try; None when it is not, or when nobody knows."""

    def __init__(self, message: str, param: str | None = None, retry_after_s: int | None = None) -> None:
        """`retry_after_s` is what was measured; without it, what is usual for the class stands."""
        super().__init__(message)
        self.param = param
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        """OpenAI's error form."""
        return {"error": {"message": str(self), "type": self.type, "param": self.param, "code": self.code}}


class InternalError(ServiceError):
    """A bug of ours. Its cause is in the log, never in the answer."""

    def __init__(self, message: str = "an internal error ended this request; the server's log has the cause") -> None:
        super().__init__(message)


class RequestQuarantined(ServiceError):
    """The engine crashed each time it computed this request, so it is not given to another."""

    code = "request_quarantined"


class InvalidRequest(ServiceError):
    """The request itself cannot be served; sending it again will not help."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class GrammarFailed(InvalidRequest):
    """The format that the output had to follow became too complex in the middle of it; what was sent is cut."""

    code = "grammar_failed"


class UnreadableRequest(InvalidRequest):
    """It is not HTTP, or not within its bounds."""

    code = "unreadable_request"


class MalformedJson(InvalidRequest):
    """The body is not JSON."""

    code = "invalid_json"


class UnknownParameter(InvalidRequest):
    """A field that the API does not have."""

    code = "unknown_parameter"


class UnsupportedParameter(InvalidRequest):
    """A field of the API that asks for something not served here."""

    code = "unsupported_parameter"


class InvalidMessages(InvalidRequest):
    """The model's chat template refuses the messages."""

    code = "invalid_messages"


class ContextLengthExceeded(InvalidRequest):
    """Prompt and asked-for output do not fit the model's window; `excess` has the numbers where they are known."""

    code = "context_length_exceeded"

    def __init__(self, message: str, param: str | None = None, excess: Excess | None = None) -> None:
        super().__init__(message, param)
        self.excess = excess


class InvalidValue(InvalidRequest):
    """A field has the wrong type or a value out of range."""

    status = 422
    code = "invalid_value"


class BodyTooLarge(InvalidRequest):
    """The body is over `server.max_body_bytes`."""

    status = 413
    code = "request_too_large"


class InvalidApiKey(InvalidRequest):
    """Who asks did not show a key that is known here."""

    status = 401
    code = "invalid_api_key"


class ModelNotFound(InvalidRequest):
    """The named model is not served here."""

    status = 404
    code = "model_not_found"


class RouteNotFound(InvalidRequest):
    """No such path."""

    status = 404
    code = "not_found"


class TraceNotFound(InvalidRequest):
    """No such trace is kept here."""

    status = 404
    code = "trace_not_found"


class MethodNotAllowed(InvalidRequest):
    """The path exists, but not for this method."""

    status = 405
    code = "method_not_allowed"


class QueueFull(ServiceError):
    """As many requests are in flight as are allowed."""

    status = 429
    type = "rate_limit_error"
    code = "queue_full"
    retry_after_s = 2


class TooManyAtOnce(ServiceError):
    """As many requests of this API key are in flight as it may have."""

    status = 429
    type = "rate_limit_error"
    code = "too_many_at_once"
    retry_after_s = 2


class TokensSpent(ServiceError):
    """This API key has used up its tokens of the minute."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"


class Unavailable(ServiceError):
    """Not now, but later."""

    status = 503
    retry_after_s = 5


class EngineLoading(Unavailable):
    """The model is not loaded yet, for the first time since this process started."""

    code = "engine_loading"


class EngineUnavailable(Unavailable):
    """The engine is gone and did not come back in time."""

    code = "engine_unavailable"


class QueueTimeout(Unavailable):
    """It waited for `server.queue_deadline_s`, and the engine never had a place for it."""

    code = "queue_timeout"


class Overloaded(Unavailable):
    """Load is being shed, and this request is of the kind that goes first."""

    code = "overloaded"


class WatchdogUnavailable(Unavailable):
    """The parent of the tree does not answer."""

    code = "watchdog_unavailable"


class ShuttingDown(Unavailable):
    """The service is draining."""

    code = "shutting_down"


class NotAdmin(ServiceError):
    """Somebody without the tree's own token asked for something internal."""

    status = 401
    type = "authentication_error"
    code = "invalid_admin_token"


class SlowReader(ServiceError):
    """The client left more of its stream unread than the buffer holds."""

    code = "slow_reader"


class TextModelError(Exception):
    """A tokenizer that cannot be used; the message names it and the way out. Ends the process, reaches no client."""

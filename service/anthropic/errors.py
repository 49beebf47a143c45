"""Errors in the Anthropic API's form: its own types, and its own status where it has one for a cause."""

from __future__ import annotations

from typing import Any

from ..errors import BodyTooLarge, ContextLengthExceeded, QueueFull, ServiceError, Unavailable

OVERLOADED_STATUS = 529
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def status(error: ServiceError) -> int:
    """This API says "not now" with a status of its own, and knows only 400 for what is wrong with a request."""
    if isinstance(error, QueueFull | Unavailable):
        return OVERLOADED_STATUS
    return 400 if error.status == 422 else error.status


def body(error: ServiceError, request_id: str) -> dict[str, Any]:
    described = {"type": _type(error), "message": _message(error)}
    return {"type": "error", "error": described, "request_id": request_id}


def _type(error: ServiceError) -> str:
    if isinstance(error, QueueFull | Unavailable):
        return "overloaded_error"
    if isinstance(error, BodyTooLarge):
        return "request_too_large"
    return _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")


def _message(error: ServiceError) -> str:
    """Agents read the numbers out of these two sentences, and shorten their history or ask for less."""
    if not isinstance(error, ContextLengthExceeded) or error.excess is None:
        return str(error)
    prompt, asked, window = error.excess.prompt_tokens, error.excess.asked_tokens, error.excess.window_tokens
    if prompt >= window:
        return f"prompt is too long: {prompt} tokens > {window} maximum"
    return (
        f"input length and `max_tokens` exceed context limit: {prompt} + {asked} > {window}, "
        "decrease input length or `max_tokens` and try again"
    )

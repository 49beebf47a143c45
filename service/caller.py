"""Who a request is from, by what it carries: its key, its credential or else its address; and how urgent it is."""

from __future__ import annotations

import hashlib

from aiohttp import web

from ..engine.protocol import Priority
from .auth import SHOWN
from .errors import InvalidValue
from .fairness import Caller

PRIORITY_HEADER = "x-stoker-priority"


def caller_of(request: web.Request) -> Caller:
    """Raises `InvalidValue` for a priority that there is not."""
    key = request.get(SHOWN)
    if key is None:
        return Caller(_key(request), _priority(request))
    # By its name: one that was renewed is still the same client's.
    return Caller(f"key:{key.name}", _priority(request), key.allowance)


def _key(request: web.Request) -> str:
    credential = request.headers.get("x-api-key") or request.headers.get("Authorization")
    if credential is None:
        return f"address:{request.remote}"
    # It is kept for as long as the request is, and may come to a log or a dump: never the credential itself.
    return f"credential:{hashlib.sha256(credential.encode()).hexdigest()}"


def _priority(request: web.Request) -> Priority:
    value = request.headers.get(PRIORITY_HEADER, Priority.INTERACTIVE)
    try:
        return Priority(value)
    except ValueError:
        known = " or ".join(f"`{priority}`" for priority in Priority)
        raise InvalidValue(f"`{value}` is no priority; use {known}", param=PRIORITY_HEADER) from None

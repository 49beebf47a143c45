"""Who a request is from, by what it carries: its key, its credential or else its address; and how urgent it is.

It is a batch request if its key, its header or its body says so: whoever says so means that it can wait.
"""

from __future__ import annotations

import hashlib

from aiohttp import web

from ..engine.protocol import Priority
from .auth import SHOWN
from .errors import InvalidValue
from .fairness import Caller

PRIORITY_HEADER = "x-stoker-priority"
PREFIX_CACHE_HEADER = "x-stoker-prefix-cache"
"""The watchdog's canaries may say `off`."""

WATCHDOG = web.RequestKey("watchdog", bool)
"""The request shows the tree's own token: it is a canary."""


def caller_of(request: web.Request, wanted: Priority) -> Caller:
    """`wanted` is what the body says. Raises `InvalidValue` for a priority that there is not."""
    if request.get(WATCHDOG):
        cached = request.headers.get(PREFIX_CACHE_HEADER) != "off"
        return Caller("watchdog", _in_header(request), use_prefix_cache=cached)
    key = request.get(SHOWN)
    said = {wanted, _in_header(request), Priority.INTERACTIVE if key is None else key.priority}
    priority = Priority.BATCH if Priority.BATCH in said else Priority.INTERACTIVE
    if key is None:
        return Caller(_key(request), priority)
    # By its name: one that was renewed is still the same client's.
    return Caller(f"key:{key.name}", priority, key.allowance)


def _key(request: web.Request) -> str:
    credential = request.headers.get("x-api-key") or request.headers.get("Authorization")
    if credential is None:
        return f"address:{request.remote}"
    # It is kept for as long as the request is, and may come to a log or a dump: never the credential itself.
    return f"credential:{hashlib.sha256(credential.encode()).hexdigest()}"


def _in_header(request: web.Request) -> Priority:
    value = request.headers.get(PRIORITY_HEADER, Priority.INTERACTIVE)
    try:
        return Priority(value)
    except ValueError:
        known = " or ".join(f"`{priority}`" for priority in Priority)
        raise InvalidValue(f"`{value}` is no priority; use {known}", param=PRIORITY_HEADER) from None

"""`/internal/`, for who holds the tree's own token: how much load to turn away, vitals, and the last traces."""

from __future__ import annotations

import hashlib
import hmac

import structlog
from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from .admission import Shed, ShedLevel
from .context import CONTEXT, Context
from .errors import InvalidValue, NotAdmin, TraceNotFound
from .traces import RING

log = structlog.get_logger(__name__)


class ShedBody(BaseModel):
    """The request's body."""

    model_config = ConfigDict(extra="forbid")

    level: ShedLevel
    reason: str


async def put_shed(request: web.Request) -> web.Response:
    """Set the shed level; it stands until another comes."""
    context = request.app[CONTEXT]
    require_admin(request, context)
    try:
        body = ShedBody.model_validate_json(await request.read())
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in problem["loc"])
        raise InvalidValue(f"`{field or 'body'}`: {problem['msg']}", param=field or None) from None
    shed = Shed(body.level, body.reason)
    if shed != context.door.shed:
        log.warning("shed_level", level=int(shed.level), was=int(context.door.shed.level), reason=shed.reason)
    context.door.shed = shed
    return web.json_response({"level": int(shed.level), "reason": shed.reason})


async def get_vitals(request: web.Request) -> web.Response:
    """How the service does, for the watchdog's samples."""
    context = request.app[CONTEXT]
    require_admin(request, context)
    return web.json_response(context.vitals.told())


async def get_traces(request: web.Request) -> web.Response:
    """The last traces in short, newest first."""
    context = request.app[CONTEXT]
    require_admin(request, context)
    return web.json_response({"traces": context.traces.snapshot()})


async def get_trace(request: web.Request) -> web.Response:
    """One of them whole, by its id, by its request's, or the `last`."""
    context = request.app[CONTEXT]
    require_admin(request, context)
    name = request.match_info["id"]
    found = context.traces.find(name)
    if found is None:
        raise TraceNotFound(f"no trace `{name}` among the last {RING}; see GET /internal/traces for those")
    return web.json_response(found)


def shows_admin_token(request: web.Request, context: Context) -> bool:
    """Whether it is the watchdog of this tree, or its operator, who asks."""
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    shown = hashlib.sha256(token.encode()).hexdigest()
    return context.admin_token_sha256 is not None and hmac.compare_digest(shown, context.admin_token_sha256)


def require_admin(request: web.Request, context: Context) -> None:
    """Raises `NotAdmin`."""
    if not shows_admin_token(request, context):
        raise NotAdmin("this path is for the watchdog: send `Authorization: Bearer` and the token in admin.token")

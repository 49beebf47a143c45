"""`GET /v1/models`: the models, in a form that satisfies both APIs' libraries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from ..context import CONTEXT, Context


async def models(request: web.Request) -> web.Response:
    cards = [_card(request.app[CONTEXT])]
    ends = {"first_id": cards[0]["id"], "last_id": cards[-1]["id"], "has_more": False}
    return web.json_response({"object": "list", "data": cards, **ends})


async def model(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    context.require_model(request.match_info["model"])
    return web.json_response(_card(context))


def _card(context: Context) -> dict[str, Any]:
    created_at = datetime.fromtimestamp(context.created, UTC).isoformat()
    openai = {"id": context.model_name, "object": "model", "created": context.created, "owned_by": "stoker"}
    anthropic = {"type": "model", "display_name": context.model_name, "created_at": created_at, "lifecycle": "active"}
    return openai | anthropic

"""Which path does what; the small ones in full."""

from __future__ import annotations

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from .admission import unready
from .chat import chat_completions
from .context import CONTEXT, Context
from .middleware import answer_for_everything, name_the_request
from .openai import model_card


def make_app(context: Context) -> web.Application:
    """The whole API."""
    app = web.Application(middlewares=[answer_for_everything], client_max_size=context.server.max_body_bytes)
    app[CONTEXT] = context
    app.on_response_prepare.append(name_the_request)
    app.add_routes(
        [
            web.post("/v1/chat/completions", chat_completions),
            web.get("/v1/models", _models),
            web.get("/v1/models/{model:.+}", _model),
            web.get("/health/live", _live),
            web.get("/health/ready", _ready),
            web.get("/metrics", make_aiohttp_handler(context.metrics.registry)),
        ]
    )
    return app


async def _models(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    return web.json_response({"object": "list", "data": [model_card(context.model_name, context.created)]})


async def _model(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    context.require_model(request.match_info["model"])
    return web.json_response(model_card(context.model_name, context.created))


async def _live(request: web.Request) -> web.Response:
    """Answers, so it lives."""
    return web.json_response({"status": "live"})


async def _ready(request: web.Request) -> web.Response:
    error = unready(request.app[CONTEXT].conditions())
    if error is None:
        return web.json_response({"status": "ready"})
    return web.json_response(
        {"status": "not_ready", "reason": error.code, "message": str(error)},
        status=error.status,
        headers={"Retry-After": str(error.retry_after_s)},
    )

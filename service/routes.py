"""Which path does what; the small ones in full."""

from __future__ import annotations

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from .admission import unready
from .anthropic.messages import count_tokens, messages
from .context import CONTEXT, Context
from .cors import allow, preflight
from .internal import get_trace, get_traces, get_vitals, put_shed
from .middleware import answer_for_everything, name_the_request
from .openai.chat import chat_completions
from .openai.completions import completions
from .openai.models import model, models
from .openai.responses import STORE, forget, remembered, responses
from .openai.responses_store import ResponseStore
from .openapi import PATH as OPENAPI
from .openapi import openapi
from .pages.routes import StatusPage


def make_app(context: Context, page: StatusPage) -> web.Application:
    """The whole API."""
    app = web.Application(middlewares=[answer_for_everything], client_max_size=context.server.max_body_bytes)
    app[CONTEXT] = context
    app[STORE] = ResponseStore()
    app.on_response_prepare.append(name_the_request)
    if context.server.cors_origins:
        app.on_response_prepare.append(allow(context.server.cors_origins))
        app.router.add_options("/v1/{path:.*}", preflight)
    app.add_routes(
        [
            web.post("/v1/chat/completions", chat_completions),
            web.post("/v1/completions", completions),
            web.post("/v1/responses", responses),
            web.get("/v1/responses/{response_id}", remembered),
            web.delete("/v1/responses/{response_id}", forget),
            web.post("/v1/messages", messages),
            web.post("/v1/messages/count_tokens", count_tokens),
            web.get("/v1/models", models),
            web.get("/v1/models/{model:.+}", model),
            web.get(OPENAPI, openapi),
            web.get("/health/live", _live),
            web.get("/health/ready", _ready),
            web.put("/internal/shed", put_shed),
            web.get("/internal/vitals", get_vitals),
            web.get("/internal/traces", get_traces),
            web.get("/internal/traces/{id}", get_trace),
            *page.routes(),
            web.get("/metrics", make_aiohttp_handler(context.metrics.registry)),
        ]
    )
    return app


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

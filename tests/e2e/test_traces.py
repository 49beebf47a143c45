"""`stoker status --trace`: where a request's time went, for people and machines; and what the log may say of it."""

from __future__ import annotations

import json
import re

import aiohttp

from tests.e2e.chatting import chat_body
from tests.e2e.running import RunningTree, eventually, stoker

SECRET = "the-word-that-nobody-else-may-read"


async def asked(tree: RunningTree) -> str:
    """The trace id of an answered request."""
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{tree.api}/v1/chat/completions", json=chat_body(SECRET, max_tokens=5)) as response,
    ):
        assert response.status == 200
        return response.headers["traceparent"].split("-")[1]


async def test_a_request_can_be_looked_at(tree: RunningTree) -> None:
    trace_id = await asked(tree)
    shown = stoker(tree.home, "status", "--trace", trace_id)
    assert shown.returncode == 0, shown.stderr
    for name in ("POST /v1/chat/completions", "stoker.tokenize", "stoker.queue", "stoker.prefill", "stoker.decode"):
        assert name in shown.stdout
    assert json.loads(stoker(tree.home, "status", "--trace", "last", "--json").stdout)["trace_id"] == trace_id
    missing = stoker(tree.home, "status", "--trace", "nothing")
    assert missing.returncode == 1
    assert "no trace `nothing`" in missing.stderr


async def test_the_log_names_the_request_and_never_says_what_was_asked(tree: RunningTree) -> None:
    trace_id = await asked(tree)
    await tree.until_logged(trace_id)
    (line,) = (each for each in tree.log() if each.get("trace_id") == trace_id)
    assert re.fullmatch("req_[0-9a-f]{32}", line["request_id"])
    assert line["source"] == "service"
    kept = tree.paths.logs / "stoker.log"
    await eventually(lambda: trace_id in kept.read_text(encoding="utf-8"))
    assert SECRET not in kept.read_text(encoding="utf-8")

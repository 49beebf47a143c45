"""What agents and gateways send beside the question, as they send it: none of it may be a reason to refuse them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio

from stoker.config import Simulated
from tests.service.rig import CHAT, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

MESSAGES = "/v1/messages?beta=true"
COUNT = "/v1/messages/count_tokens?beta=true"
CACHED = {"cache_control": {"type": "ephemeral"}}
BASH = {"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object", "properties": {}}}

# Of the shape of Claude Code's requests.
CLAUDE_CODE: dict[str, Any] = {
    "model": "claude-sonnet-4-5-20250929",
    "max_tokens": 32000,
    "temperature": 1,
    "stream": True,
    "metadata": {"user_id": "user_0_account__session_1"},
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli; cch=00000;"},
        {"type": "text", "text": "You are Claude Code.", **CACHED},
        {"type": "text", "text": "Work in small steps.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>\nToday's date is 2026-01-31.\n</system-reminder>"},
                {"type": "text", "text": "List the files.", **CACHED},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "A command.", "signature": "stoker"},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py", "is_error": False, **CACHED}
            ],
        },
    ],
    "tools": [{**BASH, **CACHED}, {**BASH, "name": "Edit", "eager_input_streaming": True}],
    "thinking": {"type": "enabled", "budget_tokens": 31999},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "medium"},
}
CLAUDE_HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "anthropic-dangerous-direct-browser-access": "true",
    "authorization": "Bearer none",
    "user-agent": "claude-cli/2.1.0 (external, cli)",
    "x-app": "cli",
    "x-stainless-lang": "js",
    "x-stainless-retry-count": "0",
}
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
HABITS: dict[str, dict[str, Any]] = {
    "a stream with its usage": {"stream": True, "stream_options": {"include_usage": True}},
    "null for what is not set": {
        **dict.fromkeys(["max_tokens", "temperature", "top_p", "stop", "seed", "tools", "tool_choice", "user", "n"]),
        **dict.fromkeys(["response_format", "logit_bias", "functions", "store", "metadata", "stream_options"]),
    },
    "an empty list of tools": {"tools": [], "parallel_tool_calls": True},
    "accounting": {"user": "me", "metadata": {"a": "b"}, "store": False, "service_tier": "auto", "tools": []},
    "other servers' sampling": {"top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1},
    "other servers' reasoning": {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}},
    "caching keys": {"prompt_cache_key": "session", "safety_identifier": "x", "prediction": None},
    "a cached system prompt": {"messages": [{"role": "system", "content": [{"type": "text", "text": "x", **CACHED}]}]},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(make_shared_rig: Callable[..., Rig]) -> Rig:
    rig = make_shared_rig(simulated=Simulated(script="Well."))
    await rig.start()
    return rig


async def test_claude_codes_requests_are_served_and_counted(rig: Rig) -> None:
    async with rig.post(CLAUDE_CODE | {"max_tokens": 20_000}, MESSAGES, CLAUDE_HEADERS) as response:
        text = await response.text()
        assert response.status == 200, text
        assert "message_stop" in text
    counted = {key: CLAUDE_CODE[key] for key in ("model", "system", "messages", "tools", "thinking")}
    async with rig.post(counted, COUNT, CLAUDE_HEADERS) as response:
        assert response.status == 200, await response.text()


async def test_a_window_too_small_for_what_an_agent_asks_is_told_in_its_words(rig: Rig) -> None:
    async with rig.post(CLAUDE_CODE | {"max_tokens": 64_000}, MESSAGES, CLAUDE_HEADERS) as response:
        assert response.status == 400
        assert "exceed context limit" in (await response.json())["error"]["message"]


@pytest.mark.parametrize("habit", HABITS)
async def test_a_habit_is_no_reason_to_refuse(rig: Rig, habit: str) -> None:
    headers = {"x-title": "Aider", "http-referer": "https://aider.chat", "openai-organization": "none"}
    async with rig.post({"model": "default", "messages": HELLO} | HABITS[habit], CHAT, headers) as response:
        assert response.status == 200, await response.text()
        assert "W" in await response.text()

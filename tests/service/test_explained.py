"""A request's time is explained: what it waited for, computed, and streamed makes up all but a sliver of it."""

from __future__ import annotations

import asyncio
import re
import statistics
from collections.abc import Callable
from typing import Any

import aiohttp

from stoker.config import Simulated
from stoker.service import telemetry
from tests.service.rig import ADMIN_TOKEN, Rig, ask, events, text_of

REQUESTS = 100
AT_ONCE = 4
EXPLAINED = {telemetry.QUEUE, telemetry.PREFILL, telemetry.DECODE, telemetry.STREAM}
OPENMETRICS = {"Accept": "application/openmetrics-text"}
WITH_EXEMPLARS = (
    *("request_duration", "time_to_first_token", "time_per_output_token", "inter_token_latency"),
    *("queue", "prefill", "decode"),
)


def share(trace: dict[str, Any]) -> float:
    """Of the whole, in which at least one of the spans that explain it was open."""
    explained, at = 0.0, 0.0
    for span in sorted(trace["spans"], key=lambda span: float(span["start_s"])):
        if span["name"] in EXPLAINED:
            explained += max(span["end_s"] - max(span["start_s"], at), 0.0)
            at = max(at, span["end_s"])
    return explained / float(trace["duration_s"])


async def test_the_spans_explain_98_percent_of_a_request(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(simulated=Simulated(step_s=0.001, script="x" * 5000))
    await rig.start()

    async def one_after_the_other() -> None:
        for _ in range(REQUESTS // AT_ONCE):
            async with rig.post(ask(stream=True, max_tokens=150)) as response:
                await text_of(events(response))

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    async with aiohttp.ClientSession(rig.url, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}) as http:
        async with http.get("/internal/traces") as response:
            summaries = (await response.json())["traces"]
        shares = []
        for summary in summaries:
            async with http.get(f"/internal/traces/{summary['trace_id']}") as response:
                shares.append(share(await response.json()))
    assert len(shares) == REQUESTS
    assert statistics.median(shares) >= 0.98


async def test_every_latency_leads_to_a_trace(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    async with rig.post(ask(stream=True, max_tokens=10)) as response:
        await text_of(events(response))
        _, trace_id, _, _ = response.headers["traceparent"].split("-")
    async with aiohttp.ClientSession(rig.url) as http:
        async with http.get("/metrics", headers=OPENMETRICS) as response:
            assert response.content_type == "application/openmetrics-text"
            text = await response.text()
        async with http.get("/metrics") as response:
            assert trace_id not in await response.text()
    for name in WITH_EXEMPLARS:
        assert re.search(rf'^stoker_{name}_seconds_bucket.* # {{trace_id="{trace_id}"}}', text, re.MULTILINE), name

"""What it costs to see: `python -m tests.bench.observability`.

Paired runs of eight streams on a simulated engine, with metrics, traces and a collector, and without any of them; and
how long `/metrics` takes with the label sets of fifty models.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import psutil
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from stoker.config import Simulated, Telemetry
from stoker.service.metrics import Metrics
from tests.service.collector import http_collector
from tests.service.rig import Rig, ask, events, text_of

PAIRS = 6
STREAMS = 8
TOKENS = 400
STEP_S = 0.008
UNOBSERVED = str(Path(__file__).with_name("unobserved.py"))
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/models")
CODES = ("200", "400", "429", "499", "500", "503")
SCRAPES = 30


async def run(observed: bool, collector_url: str) -> tuple[float, float]:
    """Tokens a second of all streams, and the service's CPU seconds a token."""
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(
            Path(folder),
            simulated=Simulated(step_s=STEP_S, script="x" * 5000),
            telemetry=Telemetry(otlp_endpoint=collector_url, otlp_protocol="http") if observed else Telemetry(),
        )
        try:
            service = await rig.start_service(*(() if observed else (UNOBSERVED,)))
            await rig.start_engine()
            await asyncio.gather(*(stream(rig, 20) for _ in range(STREAMS)))
            process = psutil.Process(service.pid)
            used, began = sum(process.cpu_times()[:2]), time.monotonic()
            await asyncio.gather(*(stream(rig, TOKENS) for _ in range(STREAMS)))
            seconds = time.monotonic() - began
            used = sum(process.cpu_times()[:2]) - used
            return STREAMS * TOKENS / seconds, used / (STREAMS * TOKENS)
        finally:
            await rig.stop()


async def stream(rig: Rig, tokens: int) -> None:
    async with rig.post(ask(stream=True, max_tokens=tokens)) as response:
        await text_of(events(response))


async def compare() -> None:
    with http_collector() as collector:
        gains, on, off = [], [], []
        for _ in range(PAIRS):
            seen, unseen = await run(True, collector.url), await run(False, collector.url)
            gains.append(seen[0] / unseen[0] - 1)
            on.append(seen)
            off.append(unseen)
            print(f"on {seen[0]:.1f} tok/s, off {unseen[0]:.1f} tok/s, {gains[-1]:+.2%}", file=sys.stderr)
    cost = [statistics.median(cpu for _, cpu in runs) * 1e6 for runs in (on, off)]
    print(f"tokens/s, on against off, median of {PAIRS} pairs: {statistics.median(gains):+.2%}")
    print(f"CPU of the service a token: on {cost[0]:.0f} us, off {cost[1]:.0f} us")


def scrape() -> None:
    metrics = Metrics()
    for model, endpoint, code in product((f"model-{number}" for number in range(50)), ENDPOINTS, CODES):
        metrics.requests.labels(model, endpoint, code).inc()
    exemplar = {"trace_id": "0" * 32}
    for histogram in (metrics.time_to_first_token, metrics.inter_token_latency, metrics.request_duration):
        for value in (0.003, 0.03, 0.3, 3.0, 30.0):
            histogram.observe(value, exemplar)
    for name, generate in (("text", generate_latest), ("OpenMetrics", generate_openmetrics)):
        times = []
        for _ in range(SCRAPES):
            began = time.perf_counter()
            generate(metrics.registry)
            times.append(time.perf_counter() - began)
        print(
            f"/metrics as {name}, 50 models, {len(ENDPOINTS) * len(CODES)} series each: "
            f"median {statistics.median(times) * 1000:.1f} ms, worst {max(times) * 1000:.1f} ms"
        )


if __name__ == "__main__":
    scrape()
    asyncio.run(compare())

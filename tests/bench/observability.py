"""What it costs to see: `python -m tests.bench.observability [--model FOLDER] [--pairs N]`.

How long `/metrics` takes with the label sets of fifty models; then paired runs of eight streams with metrics, scrapes,
traces and a collector, and without any of them. On a simulated engine each run has both processes to itself; with a
model, a service of each kind takes turns on one engine, so that no difference between two engines is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import aiohttp
import psutil
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from stoker.config import Simulated, Telemetry
from stoker.service.metrics import Metrics
from stoker.soak.target import Target
from tests.bench.chat import questions, tokens_per_second
from tests.service.collector import http_collector
from tests.service.rig import Rig, ask, events, text_of

PAIRS = 6
STREAMS = 8
TOKENS = 400
STEP_S = 0.008
REAL_TOKENS = 32
ENDLESS = {"0": -100, "2": -100}
"""Without the demo model's ends, so that every answer is as long as it may be."""
SCRAPE_EVERY_S = 5.0
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
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
            telemetry=told_to(collector_url) if observed else Telemetry(),
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


async def compare(pairs: int) -> None:
    with http_collector() as collector:
        gains, on, off = [], [], []
        for _ in range(pairs):
            seen, unseen = await run(True, collector.url), await run(False, collector.url)
            gains.append(seen[0] / unseen[0] - 1)
            on.append(seen)
            off.append(unseen)
            print(f"on {seen[0]:.1f} tok/s, off {unseen[0]:.1f} tok/s, {gains[-1]:+.2%}", file=sys.stderr)
    cost = [statistics.median(cpu for _, cpu in runs) * 1e6 for runs in (on, off)]
    print(f"tokens/s, on against off, median of {pairs} pairs: {statistics.median(gains):+.2%}")
    print(f"CPU of the service a token: on {cost[0]:.0f} us, off {cost[1]:.0f} us")


async def compare_with(model: Path, pairs: int) -> None:
    """Questions of the same length to both sides, turn by turn, each side first in every other turn.

    CPU time is less disturbed than tokens a second by what else the machine does.
    """
    rates: list[float] = []
    costs: list[float] = []
    with http_collector() as collector, tempfile.TemporaryDirectory() as name:
        # Drafts follow what is written, which differs from turn to turn.
        seen = Rig(
            Path(name),
            telemetry=told_to(collector.url),
            model_name="demo",
            model_path=model,
            real=True,
            speculation="off",
        )
        unseen = Rig(Path(name), model_name="demo", model_path=model)
        await seen.start()
        await unseen.start_service(UNOBSERVED)
        await unseen.until_status("/health/ready", 200)
        scraping = asyncio.create_task(scrapes(seen))
        try:
            for turn in range(pairs + 1):
                sides = {}
                for rig in (seen, unseen) if turn % 2 else (unseen, seen):
                    sides[rig] = await rate_of(rig, seen, f"{turn}{'ab'[rig is seen]}")
                rate, cost = (sides[seen][each] / sides[unseen][each] - 1 for each in (0, 1))
                print(f"on {sides[seen][0]:.1f} tok/s, off {sides[unseen][0]:.1f} tok/s, {rate:+.2%}", file=sys.stderr)
                if turn:  # the first one warms up
                    rates.append(rate)
                    costs.append(cost)
        finally:
            scraping.cancel()
            await unseen.stop()
            await seen.stop()
    for what, gains in (("tokens/s", rates), ("CPU of engine and service a token", costs)):
        low, middle, high = statistics.quantiles(gains, n=4)
        print(f"{what}, on against off, {pairs} pairs: median {middle:+.2%}, quartiles {low:+.2%} and {high:+.2%}")


def told_to(collector_url: str) -> Telemetry:
    return Telemetry(otlp_endpoint=collector_url, otlp_protocol="http")


async def rate_of(rig: Rig, with_engine: Rig, turn: str) -> tuple[float, float]:
    """Tokens a second, and CPU seconds of engine and service a token."""
    assert rig.service is not None
    assert with_engine.engine is not None
    processes = [psutil.Process(each.pid) for each in (rig.service, with_engine.engine)]
    # They differ from the first word on, so that no prefix cache helps the second side.
    texts = [f"{turn}.{stream} is the number of this task: write a long story." for stream in range(STREAMS)]
    used = -sum(sum(process.cpu_times()[:2]) for process in processes)
    target = Target(rig.url, "default", options={"logit_bias": ENDLESS})
    rate = await tokens_per_second(target, questions(texts, REAL_TOKENS))
    used += sum(sum(process.cpu_times()[:2]) for process in processes)
    return rate, used / (STREAMS * REAL_TOKENS)


async def scrapes(rig: Rig) -> None:
    async with aiohttp.ClientSession() as http:
        while True:
            async with http.get(f"{rig.url}/metrics", headers={"accept": OPENMETRICS}) as answer:
                await answer.read()
            await asyncio.sleep(SCRAPE_EVERY_S)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    asked = parser.parse_args()
    scrape()
    asyncio.run(compare(asked.pairs) if asked.model is None else compare_with(asked.model.resolve(), asked.pairs))


if __name__ == "__main__":
    main()

"""A chaos run on a real tree with a real model: a table for people, JSON for machines, exit code 1 when a text noticed.

python -m tests.chaos.run [MODEL_FOLDER] [--minutes 10] [--seed N] [--report build/chaos.json]
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from stoker.engine.models import ensure
from stoker.engine.progress import progress_on
from tests.chaos.clients import ask_all, ask_without_pause
from tests.chaos.findings import Findings, judge
from tests.chaos.monkey import kill_engines
from tests.chaos.ties import with_margins
from tests.chaos.workload import requests
from tests.e2e.chatting import ask, chat_body
from tests.e2e.running import RunningTree

CLIENTS = 8
KILL_EVERY_S = (10.0, 20.0)
# The monkey is no crash loop: however often it kills, the engine is started again at once.
CONFIG = """
[engine]
model = "{model}"
[server]
port = 0
[watchdog]
port = 0
[watchdog.restart]
intensity = 100000
backoff_max_s = 0.1
"""
LONG_PROMPT = "Consider every one of these words with care. " * 40


async def chaos(
    tree: RunningTree, seconds: float, seed: int, distinct: int, kill_every_s: tuple[float, float]
) -> Findings:
    """Undisturbed first, then `seconds` of kills; `distinct` is the number of different requests."""
    workload = requests(seed, distinct)
    speed = await prefill_tokens_per_s(tree.api)
    undisturbed = await ask_all(tree.api, workload, CLIENTS)
    failed = [answer.error for answer in undisturbed if answer.error is not None]
    assert not failed, f"failed without chaos: {failed}"
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        killing = group.create_task(kill_engines(tree, seed, kill_every_s, stop))
        asking = group.create_task(ask_without_pause(tree.api, workload, seed, CLIENTS, stop))
        await asyncio.sleep(seconds)
        stop.set()
    texts = {answer.request: answer.text for answer in undisturbed}
    findings = judge(asking.result(), texts, killing.result(), prefilled_again(tree), speed)
    return dataclasses.replace(findings, differences=await with_margins(tree.api, findings.differences))


def prefilled_again(tree: RunningTree) -> Counter[int]:
    """By epoch, the tokens of resumed requests that no block on disk held."""
    tokens: Counter[int] = Counter()
    for line in tree.log():
        if line.get("event") == "request_resumed":
            tokens[line["epoch"]] += line["known_tokens"] - line["cached_tokens"]
    return tokens


async def prefill_tokens_per_s(api: str) -> float:
    """The engine's own measure of a long prompt that has it to itself; a first one warms it up."""
    for opening in ("First", "Second"):
        before = await _prefilled(api)
        await ask(api, chat_body(f"{opening}: {LONG_PROMPT}", max_tokens=1, temperature=0))
        after = await _prefilled(api)
    return (after[0] - before[0]) / (after[1] - before[1])


async def _prefilled(api: str) -> tuple[float, float]:
    """Prompt tokens computed so far, and the seconds that took."""
    async with aiohttp.ClientSession() as http, http.get(f"{api}/metrics") as response:
        families = text_string_to_metric_families(await response.text())
    samples = {
        (sample.name, sample.labels.get("source")): sample.value for family in families for sample in family.samples
    }
    tokens = samples.get(("stoker_prompt_tokens_total", "computed"), 0.0)
    return tokens, samples.get(("stoker_prefill_seconds_sum", None), 0.0)


def as_json(findings: Findings) -> dict[str, Any]:
    return {
        "kills": len(findings.kills),
        "requests": findings.answers,
        "output_tokens": findings.tokens,
        "failed": len(findings.errors),
        "lost_or_repeated": findings.shifted + len(findings.wrong_counts),
        "different": len(findings.differences),
        "greedy": findings.greedy,
        "greedy_different": findings.greedy_differences,
        "of_them_ties": findings.ties,
        "ready_after_s": spread([kill.ready_after_s for kill in findings.kills]),
        "start_s": spread([kill.start_s for kill in findings.kills]),
        "pause_s": spread([gap.seconds for gap in findings.gaps]),
        "unavoidable_s": spread([gap.ideal_s for gap in findings.gaps]),
        "pause_ratio": spread([gap.ratio for gap in findings.gaps]),
        "differences": [dataclasses.asdict(difference) for difference in findings.differences],
        "problems": findings.problems(),
    }


def spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {
        "median": round(statistics.median(values), 3),
        "p95": round(float(np.percentile(values, 95)), 3),
        "max": round(max(values), 3),
    }


def show(report: dict[str, Any], console: Console) -> None:
    table = Table("chaos", "", box=None, pad_edge=False)
    for name, value in report.items():
        if name in {"differences", "problems"}:
            continue
        text = "  ".join(f"{key} {each:.2f}" for key, each in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(name.replace("_", " "), text)
    console.print(table)
    for problem in report["problems"]:
        console.print(problem, style="red", markup=False)


def run_chaos(
    model: Path,
    home: Path,
    *,
    seconds: float,
    seed: int,
    distinct: int,
    kill_every_s: tuple[float, float] = KILL_EVERY_S,
) -> Findings:
    """On a tree of its own that lives in `home`."""
    tree = RunningTree(home, CONFIG.format(model=model))
    tree.start()
    try:
        return asyncio.run(chaos(tree, seconds, seed, distinct, kill_every_s))
    finally:
        tree.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="default: the demo model, fetched once")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("build/chaos.json"))
    options = parser.parse_args()
    console = Console(stderr=True)
    model = options.model or ensure("demo", Path.home() / ".cache" / "stoker-tests", progress_on(console))
    with tempfile.TemporaryDirectory() as home:
        findings = run_chaos(model.resolve(), Path(home), seconds=options.minutes * 60, seed=options.seed, distinct=48)
    report = {"seed": options.seed, "minutes": options.minutes, **as_json(findings)}
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(json.dumps(report, indent=2))
    show(report, Console())
    sys.exit(1 if findings.problems() else 0)


if __name__ == "__main__":
    main()

"""What the engine does, section by section: over HTTP against `mlx_lm.server`, and by itself over its socket.

What is about scheduling runs without drafts, whose tokens come in bursts.

Prints a table, or JSON. Run with

    python -m tests.bench.engine MODEL_FOLDER [--only NAME …] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stoker.config import Engine
from tests.bench import against_server, drafts
from tests.bench.bare_loop import BareLoop
from tests.bench.one_engine import Bench, Figures, in_an_engine, prompt_of, with_engine

ENGINES = 3


def against_a_bare_loop(model: Path) -> Figures:
    """Output tokens a second of random prompts of 20 to 140 tokens, as a share of the bare loop's."""
    figures: Figures = {}
    bare = BareLoop(model)

    async def compare(bench: Bench) -> Figures:
        for streams in (1, 4, 8, 16):
            ratios = []
            for turn in range(3):
                prompts = [prompt_of(1000 * turn + 10 * streams + i, 20 + 120 * i // streams) for i in range(streams)]
                plain = await asyncio.to_thread(bare.tokens_per_second, prompts, 48)
                ours = await bench.tokens_per_second(prompts, 48)
                ratios.append(ours / plain)
            figures[f"tokens/s at {streams} against a bare loop"] = statistics.median(ratios)
        return figures

    try:
        return in_an_engine(model, Engine(), compare)
    finally:
        bare.close()


def prefix_hits(model: Path) -> Figures:
    """Time to the first token behind a prefix of 1,500 tokens, as a share of a cold one's."""
    shared = prompt_of(1, 1500)

    async def in_ram(bench: Bench) -> Figures:
        cold = await bench.first_token_s([*shared, *prompt_of(2, 20)])
        warm = [await bench.first_token_s([*shared, *prompt_of(3 + i, 20)]) for i in range(3)]
        return {"cold first token s": cold, "RAM hit / cold": statistics.median(warm) / cold}

    async def on_disk(bench: Bench) -> Figures:
        return {"disk hit s": await bench.first_token_s([*shared, *prompt_of(9, 20)])}

    with tempfile.TemporaryDirectory() as folder:
        # The first engine is killed, not asked to end: what is on disk is what it wrote while it ran.
        figures = asyncio.run(with_engine(Path(folder), model, Engine(), in_ram))
        disk = asyncio.run(with_engine(Path(folder), model, Engine(), on_disk))["disk hit s"]
    return {**figures, "disk hit after kill -9 / cold": disk / figures["cold first token s"]}


def rhythm_beside_a_prefill(model: Path) -> Figures:
    """Four streams while a prompt of 3,000 tokens arrives, and a short prompt after it."""

    async def measure(bench: Bench) -> Figures:
        alone_s = await bench.first_token_s(prompt_of(1, 3000))
        streams = [bench.submit(prompt_of(10 + i, 30), 1500) for i in range(4)]
        await asyncio.sleep(8)
        began = time.perf_counter()
        long = bench.submit(prompt_of(2, 3000), 1)
        await asyncio.sleep(3)
        short_began = time.perf_counter()
        short = bench.submit(prompt_of(3, 30), 1)
        await bench.ended(long, short)
        over = bench.first_at(long)
        bench.cancel(*streams)
        await bench.ended(*streams)
        calm = [gap for name in streams for gap in bench.gaps(name, until=began)][len(streams) * 5 :]
        beside = [gap for name in streams for gap in bench.gaps(name, began, over)]
        return {
            "longest pause s": max(beside),
            "p95 inter-token / undisturbed": _p95(beside) / _p95(calm),
            "long prompt / alone": (over - began) / alone_s,
            "short prompt's first token s": bench.first_at(short) - short_began,
            "short before long": float(bench.first_at(short) < over),
        }

    return in_an_engine(model, Engine(speculation="off"), measure)


def long_beside_short(model: Path) -> Figures:
    """Time per token of seven short conversations beside one of 3,000 tokens, as a share of eight short ones'."""

    async def measure(bench: Bench) -> Figures:
        async def time_per_token(prompts: Sequence[Sequence[int]]) -> float:
            names = [bench.submit(prompt, 160) for prompt in prompts]
            await bench.ended(*names)
            last_first = max(bench.first_at(name) for name in names)
            return statistics.median(gap for name in names[1:] for gap in bench.gaps(name, since=last_first))

        short = [prompt_of(i, 30) for i in range(8)]
        await bench.first_token_s(prompt_of(99, 3000))
        beside = await time_per_token([[*prompt_of(99, 3000), 5], *short[1:]])
        return {"time per token beside a long one / short ones": beside / await time_per_token(short)}

    return in_an_engine(model, Engine(speculation="off"), measure)


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _usually(scenario: Callable[[Path], Figures], model: Path) -> Figures:
    """Medians over fresh engines: where in memory one has its weights alone makes up to a tenth of its speed."""
    runs = [scenario(model) for _ in range(ENGINES)]
    return {what: statistics.median(figures[what] for figures in runs) for what in runs[0]}


SCENARIOS: dict[str, Callable[[Path], Figures]] = {
    **{f"streams-{count}": partial(against_server.streams, count=count) for count in (1, 4, 8, 16)},
    "seeds": against_server.seeded,
    "agents": against_server.agents,
    "repeated-code": drafts.repeated_code,
    "prose": drafts.prose,
    "batches": against_a_bare_loop,
    "prefix": partial(_usually, prefix_hits),
    "rhythm": partial(_usually, rhythm_beside_a_prefill),
    "long": partial(_usually, long_beside_short),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.only:
        results[name] = SCENARIOS[name](options.model.resolve())
        for what, value in results[name].items():
            print(f"{what:50}{value:8.3f}", file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

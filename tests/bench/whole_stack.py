"""Whole-stack throughput: `stoker serve` over HTTP against a bare mlx-lm batch loop, same model, same prompts.

Both sides get the same chat prompts of different lengths and decode greedily, so they make the same tokens. They run
in turn, not at once, and the ratio of each pair is taken: a machine whose speed drifts moves both. Run with

    python -m tests.bench.whole_stack MODEL_FOLDER [--streams 8] [--repeats 5] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stoker.engine.blas import preload_environment
from tests.bench.chat import ChatClient
from tests.e2e.running import RunningTree

TOPICS = ["the sea", "bread", "railways", "honey bees", "glass", "the moon", "tea", "maps"]


def questions_of_different_lengths(streams: int, turn: int) -> list[str]:
    """One question a stream, with none to a few hundred tokens of context before it; other ones each turn.

    They differ from the first words on, so that no prefix cache helps the side that has one.
    """
    made = []
    for index in range(streams):
        topic = TOPICS[(index + turn) % len(TOPICS)]
        context = f"Notes about {topic}: people have known {topic} for a long time. " * (index * 2)
        made.append(f"Task {turn}.{index}. {context}Write a long story about {topic}.")
    return made


class BareLoop:
    """mlx-lm's batch generator in a process of its own."""

    def __init__(self, model: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.bare_mlx_lm", str(model)],
            env={**os.environ, **preload_environment(os.environ)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tokens_per_second(self, questions: list[str], max_tokens: int) -> tuple[int, float]:
        """Tokens made of answers to these questions, and their rate."""
        return self._ask({"questions": questions, "max_tokens": max_tokens})

    def tokens_per_second_of(self, prompts: list[list[int]], max_tokens: int) -> tuple[int, float]:
        """The same for prompts of token ids, each going on for `max_tokens`, whatever it says."""
        return self._ask({"prompts": prompts, "max_tokens": max_tokens})

    def _ask(self, request: dict[str, Any]) -> tuple[int, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["tokens"], answer["tokens"] / answer["seconds"]

    def close(self) -> None:
        self._process.communicate(timeout=30)


async def stack_tokens_per_second(url: str, questions: list[str], max_tokens: int) -> tuple[int, float]:
    """All questions at once as streams; tokens made, and their rate from the first request to the last byte."""
    async with ChatClient(url, "default") as client:
        started = time.perf_counter()
        asked = (client.ask([{"role": "user", "content": question}], max_tokens) for question in questions)
        tokens = sum(reply.tokens for reply in await asyncio.gather(*asked))
        return tokens, tokens / (time.perf_counter() - started)


def measure(model: Path, streams: int, repeats: int, max_tokens: int) -> dict[str, Any]:
    """Pairs of (bare, stack) rates in tokens a second, their ratios, and the tokens that each side made."""
    with tempfile.TemporaryDirectory() as folder:
        config = f'[engine]\nmodel = "{model}"\n[server]\nport = 0\n[watchdog]\nport = 0\n'
        tree = RunningTree(Path(folder), config)
        tree.start()
        bare = BareLoop(model)
        try:
            pairs = []
            for turn in range(repeats + 1):
                questions = questions_of_different_lengths(streams, turn)
                of_bare = bare.tokens_per_second(questions, max_tokens)
                of_stack = asyncio.run(stack_tokens_per_second(tree.api, questions, max_tokens))
                print(f"{'warm-up' if turn == 0 else turn}: bare {of_bare}, stack {of_stack}", file=sys.stderr)
                if turn:
                    pairs.append((of_bare, of_stack))
        finally:
            bare.close()
            tree.stop()
    return {
        "streams": streams,
        "tokens": {"bare": sum(of_bare[0] for of_bare, _ in pairs), "stack": sum(of_stack[0] for _, of_stack in pairs)},
        "bare_tokens_per_second": statistics.median(rate for (_, rate), _ in pairs),
        "stack_tokens_per_second": statistics.median(rate for _, (_, rate) in pairs),
        "ratio": statistics.median(stack / bare for (_, bare), (_, stack) in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.model.resolve(), options.streams, options.repeats, options.max_tokens)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'bare mlx-lm loop':20}{result['bare_tokens_per_second']:8.1f} tokens/s")
    print(f"{'stoker over HTTP':20}{result['stack_tokens_per_second']:8.1f} tokens/s")
    print(f"{'ratio':20}{result['ratio']:8.3f}")


if __name__ == "__main__":
    main()

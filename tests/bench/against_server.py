"""Stoker's whole stack against `mlx_lm.server`, both over HTTP with the same streamed chats, in turn.

Both run all the time, but only one works: a machine whose speed drifts moves both sides of each pair, whose ratio is
taken. Each starts first once, since what starts later may get memory that is faster by a tenth. Everything is as it
comes, on both sides; so Stoker may draft. Questions differ from their first words on each time, so that no prefix cache
helps where none is meant to.
"""

from __future__ import annotations

import asyncio
import operator
import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from stoker.soak.compare.entries import ENTRIES
from stoker.soak.compare.running import running
from stoker.soak.compare.stacks import Contender
from stoker.soak.workloads import Conversation, Message, Turn
from tests.bench.chat import questions, tokens_per_second

READY_WITHIN_S = 120.0
TURNS = 2
"""With each of the two started first."""
AGENTS = 8
AGENT_TURNS = 6
PREFIX_WORDS = 500
"""About 1,500 tokens of the demo model."""

_BOTH = "stoker", "mlx_lm.server"
_LETTERS = "bdfklmnprstv", "aeiou"
_TOPICS = ["the sea", "bread", "railways", "honey bees", "glass", "the moon", "tea", "maps"]


def streams(model: Path, count: int) -> dict[str, float]:
    """So many greedy streams at once, each with its own question of 30 to 120 tokens."""
    return _compared(model, f"{count} streams", count, lambda turn: questions(_asked(count, turn), 64))


def seeded(model: Path) -> dict[str, float]:
    """Eight streams at temperature 0.8, each with a seed."""

    def asked(turn: int) -> Sequence[Conversation]:
        return questions(_asked(8, turn), 48, temperature=0.8)

    return _compared(model, "8 streams with seeds", 8, asked, seeds=True)


def agents(model: Path) -> dict[str, float]:
    """Eight agents on one system prompt of 1,500 tokens; each takes six turns, and its conversation grows."""
    return _compared(model, "8 agents", AGENTS, _agents, turns=1)


def _compared(
    model: Path,
    what: str,
    count: int,
    asked: Callable[[int], Sequence[Conversation]],
    *,
    turns: int = TURNS,
    seeds: bool = False,
) -> dict[str, float]:
    async def measure() -> dict[str, float]:
        rates: dict[str, list[float]] = {name: [] for name in _BOTH}
        for order in (_BOTH, _BOTH[::-1]):
            async with AsyncExitStack() as stack:
                targets = {}
                for name in order:
                    contender = Contender(name, ENTRIES[name], str(model))
                    ready = await stack.enter_async_context(running(contender, count, READY_WITHIN_S))
                    targets[name] = replace(ready.target, seeds=seeds)
                    await tokens_per_second(targets[name], questions(["Say hello."], 8))
                for turn in range(turns):
                    for name, target in targets.items():
                        rates[name].append(await tokens_per_second(target, asked(turn)))
        ours, theirs = rates.values()
        return {
            f"{what}: Stoker tokens/s": statistics.median(ours),
            f"{what}: mlx_lm.server tokens/s": statistics.median(theirs),
            f"{what}: ratio": statistics.median(map(operator.truediv, ours, theirs)),
        }

    return asyncio.run(measure())


def _agents(turn: int) -> list[Conversation]:
    """Each goes on as soon as it is answered."""
    rules = Message("system", _some_words(seed=turn, count=PREFIX_WORDS))

    def agent(number: int) -> Conversation:
        tasks = [
            Message("user", f"Agent {number}, step {step}: write about {_TOPICS[(number + step) % len(_TOPICS)]}.")
            for step in range(AGENT_TURNS)
        ]
        first, *others = tasks
        return Conversation("agents", number, (Turn((rules, first), 40), *(Turn((task,), 40) for task in others)))

    return [agent(number) for number in range(AGENTS)]


def _asked(count: int, turn: int) -> list[str]:
    asked = []
    for index in range(count):
        context = _some_words(seed=1000 * turn + index, count=30 * index // count)
        asked.append(f"Task {turn}.{index}. {context} Write a long story about {_TOPICS[(index + turn) % 8]}.")
    return asked


def _some_words(seed: int, count: int) -> str:
    """Words that nobody has seen, of about three tokens each."""
    source = random.Random(seed)
    return " ".join("".join(source.choice(_LETTERS[i % 2]) for i in range(6)) for _ in range(count))

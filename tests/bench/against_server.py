"""Stoker's whole stack against `mlx_lm.server`, both over HTTP with the same streamed chats, in turn.

Both run all the time, but only one works: a machine whose speed drifts moves both sides of each pair, whose ratio is
taken. Everything is as it comes, on both sides; so Stoker may draft. Questions differ from their first words on each
time, so that no prefix cache helps where none is meant to.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from tests.bench.chat import ChatClient, Messages
from tests.bench.peer import PeerServer
from tests.e2e.running import RunningTree

TURNS = 3
AGENTS = 8
AGENT_TURNS = 6
PREFIX_WORDS = 500
"""About 1,500 tokens of the demo model."""

_LETTERS = "bdfklmnprstv", "aeiou"
_TOPICS = ["the sea", "bread", "railways", "honey bees", "glass", "the moon", "tea", "maps"]


def streams(model: Path, count: int) -> dict[str, float]:
    """So many greedy streams at once, each with its own question of 30 to 120 tokens."""
    return _compared(model, f"{count} streams", lambda client, turn: client.tokens_per_second(_ask(count, turn), 64))


def seeded(model: Path) -> dict[str, float]:
    """Eight streams at temperature 0.8, each with a seed."""

    def ask(client: ChatClient, turn: int) -> Awaitable[float]:
        return client.tokens_per_second(_ask(8, turn), 48, temperature=0.8, seed=turn)

    return _compared(model, "8 streams with seeds", ask)


def agents(model: Path) -> dict[str, float]:
    """Eight agents on one system prompt of 1,500 tokens; each takes six turns, and its conversation grows."""
    return _compared(model, "8 agents", _agents, turns=1)


def _compared(
    model: Path, what: str, ask: Callable[[ChatClient, int], Awaitable[float]], turns: int = TURNS
) -> dict[str, float]:
    async def measure() -> dict[str, float]:
        async with _both(model) as (ours, theirs):
            for client in (ours, theirs):
                await client.tokens_per_second(["Say hello."], 8)
            pairs = [(await ask(ours, turn), await ask(theirs, turn)) for turn in range(turns)]
        return {
            f"{what}: Stoker tokens/s": statistics.median(our for our, _ in pairs),
            f"{what}: mlx_lm.server tokens/s": statistics.median(their for _, their in pairs),
            f"{what}: ratio": statistics.median(our / their for our, their in pairs),
        }

    return asyncio.run(measure())


@contextlib.asynccontextmanager
async def _both(model: Path) -> AsyncIterator[tuple[ChatClient, ChatClient]]:
    with tempfile.TemporaryDirectory() as folder:
        tree = RunningTree(Path(folder), f'[engine]\nmodel = "{model}"\n[server]\nport = 0\n[watchdog]\nport = 0\n')
        peer = PeerServer(model)
        try:
            tree.start()
            async with ChatClient(tree.api, "default") as ours, ChatClient(peer.url, "default_model") as theirs:
                yield ours, theirs
        finally:
            peer.close()
            tree.stop()


async def _agents(client: ChatClient, turn: int) -> float:
    """Output tokens a second of all agents together, each going on as soon as it is answered."""
    rules = _some_words(seed=turn, count=PREFIX_WORDS)

    async def agent(number: int) -> int:
        messages: Messages = [{"role": "system", "content": rules}]
        tokens = 0
        for step in range(AGENT_TURNS):
            task = f"Agent {number}, step {step}: write about {_TOPICS[(number + step) % len(_TOPICS)]}."
            messages.append({"role": "user", "content": task})
            reply = await client.ask(messages, 40)
            messages.append({"role": "assistant", "content": reply.text})
            tokens += reply.tokens
        return tokens

    started = time.perf_counter()
    tokens = await asyncio.gather(*(agent(number) for number in range(AGENTS)))
    return sum(tokens) / (time.perf_counter() - started)


def _ask(count: int, turn: int) -> list[str]:
    asked = []
    for index in range(count):
        context = _some_words(seed=1000 * turn + index, count=30 * index // count)
        asked.append(f"Task {turn}.{index}. {context} Write a long story about {_TOPICS[(index + turn) % 8]}.")
    return asked


def _some_words(seed: int, count: int) -> str:
    """Words that nobody has seen, of about three tokens each."""
    source = random.Random(seed)
    return " ".join("".join(source.choice(_LETTERS[i % 2]) for i in range(6)) for _ in range(count))

"""One engine process by itself, over its socket, and what is asked of it."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from stoker.config import Engine
from stoker.engine.blas import preload_environment
from stoker.engine.protocol import Finished, RequestEvent, Sampling, Submit, Tighten, Tokens
from tests.engine.processes import EngineUnderTest, Recorder, running_engine

Figures = dict[str, float]
VOCABULARY = 40_000


class Clocked(Recorder):
    """Remembers when each request's tokens came."""

    def __init__(self) -> None:
        super().__init__(deadline_s=300)
        self.arrivals: dict[str, list[float]] = {}

    def engine_event(self, event: RequestEvent) -> None:
        if isinstance(event, Tokens):
            self.arrivals.setdefault(event.id, []).extend([time.perf_counter()] * len(event.ids))
        super().engine_event(event)


class Bench:
    """One engine process and what is asked of it; names are never used twice."""

    def __init__(self, engine: EngineUnderTest, heard: Clocked) -> None:
        self._engine = engine
        self._heard = heard
        self._count = 0

    def submit(self, prompt: Sequence[int], max_tokens: int, stop_ids: Sequence[int] = ()) -> str:
        """Greedy; without stop ids it goes on for `max_tokens` whatever it says."""
        self._count += 1
        name = f"request {self._count}"
        greedy = Sampling(seed=0, temperature=0)
        self._engine.client.submit(Submit(name, list(prompt), [], greedy, max_tokens, list(stop_ids)))
        return name

    def cancel(self, *names: str) -> None:
        for name in names:
            self._engine.client.cancel(name)

    def allow_drafts(self, allowed: bool) -> None:
        """From the next step on."""
        self._engine.client.tighten(Tighten(speculate=allowed))

    async def ended(self, *names: str) -> None:
        await self._heard.until(
            lambda: set(names) <= {event.id for event in self._heard.events if isinstance(event, Finished)}
        )

    async def first_token_s(self, prompt: Sequence[int]) -> float:
        """Time to the first token of one prompt alone."""
        began = time.perf_counter()
        name = self.submit(prompt, 1)
        await self.ended(name)
        return self._heard.arrivals[name][0] - began

    async def tokens_per_second(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> float:
        """Output of all prompts at once, from their submission to the last token."""
        began = time.perf_counter()
        names = [self.submit(prompt, max_tokens) for prompt in prompts]
        await self.ended(*names)
        return sum(len(self._heard.arrivals[name]) for name in names) / (time.perf_counter() - began)

    async def decode_rate(self, prompts: Sequence[Sequence[int]], max_tokens: int, stop_ids: Sequence[int]) -> float:
        """Tokens a second of all prompts together, once each of them has its first token."""
        names = [self.submit(prompt, max_tokens, stop_ids) for prompt in prompts]
        await self.ended(*names)
        arrivals = [at for name in names for at in self._heard.arrivals[name]]
        began = max(self.first_at(name) for name in names)
        return sum(at > began for at in arrivals) / (max(arrivals) - began)

    async def said(self, prompt: Sequence[int], max_tokens: int, stop_ids: Sequence[int]) -> list[int]:
        """What follows the prompt."""
        name = self.submit(prompt, max_tokens, stop_ids)
        await self.ended(name)
        return self._heard.tokens(name)

    def gaps(self, name: str, since: float = 0.0, until: float = float("inf")) -> list[float]:
        """Times between a request's tokens within a span of time."""
        times = [at for at in self._heard.arrivals[name] if since <= at <= until]
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    def first_at(self, name: str) -> float:
        return self._heard.arrivals[name][0]


def prompt_of(seed: int, tokens: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(100, VOCABULARY) for _ in range(tokens)]


async def with_engine(folder: Path, model: Path, engine: Engine, use: Callable[[Bench], Awaitable[Figures]]) -> Figures:
    """Start an engine with OpenBLAS as the watchdog would, use it and end it."""
    os.environ.update(preload_environment(os.environ))
    heard = Clocked()
    async with running_engine(folder, engine, model, heard=heard) as process:
        bench = Bench(process, heard)
        await bench.tokens_per_second([prompt_of(-1, 20)], 4)
        return await use(bench)


def in_an_engine(model: Path, engine: Engine, use: Callable[[Bench], Awaitable[Figures]]) -> Figures:
    """The same for one that nobody goes on with, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(with_engine(Path(folder), model, engine, use))

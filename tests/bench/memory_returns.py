"""Whether memory comes back: mixed requests, half of them cancelled at random, through one batch in this process.

Active memory is read between two requests before and after, with the prefix cache emptied both times; a tiny random
model takes seconds, a real one minutes. Prints a table, or JSON. Run with

    python -m tests.bench.memory_returns [MODEL_FOLDER] [--requests N] [--seconds S] [--kv-budget BYTES] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from stoker.config import Engine, EngineProcess
from stoker.engine.batch import Batch
from stoker.engine.blas import preload_environment
from stoker.engine.link import Command, Inbound, Link, OwnedEvent, Stop
from stoker.engine.loop import EngineLoop
from stoker.engine.mlx_batch import MlxBatch
from stoker.engine.pace import PrefillPace
from stoker.engine.protocol import Cancel, Finished, FinishReason, Sampling, Submit
from stoker.engine.scheduler import Scheduler
from tests.tiny_models import make_tiny_llama

IN_FLIGHT = 12


class Crowd(Link):
    """Keeps so many requests in flight, cancels half of them at random moments, and ends when all have ended."""

    def __init__(self, requests: int, until: float, vocabulary: int, longest: int) -> None:
        super().__init__(self._hear, lambda model, limits: None, lambda owner, level, freed: None)
        self._left = requests
        self._until = until
        self._vocabulary = vocabulary
        self._longest = longest
        self._random = random.Random(0)
        self._doomed: dict[str, int] = {}
        """Steps until each request that is to be cancelled is."""
        self._open: set[str] = set()
        self.ended = 0
        self.cancelled = 0

    def receive(self, wait: bool) -> list[Inbound]:
        arrived: list[Inbound] = []
        while self._left and len(self._open) < IN_FLIGHT and time.monotonic() < self._until:
            self._left -= 1
            arrived.append(Command(0, self._request()))
        for name in [name for name, steps in self._doomed.items() if steps == 0]:
            del self._doomed[name]
            arrived.append(Command(0, Cancel(name)))
        self._doomed = {name: steps - 1 for name, steps in self._doomed.items()}
        return arrived if self._open else [Stop()]

    def _request(self) -> Submit:
        source = self._random
        name = f"r{self._left}"
        self._open.add(name)
        longest = source.choice([10, 40, 160])
        if source.random() < 0.5:
            self._doomed[name] = source.randrange(30)
            # Long enough not to end before.
            longest = 160
        # A third of the prompts begin alike.
        shared = random.Random(1) if source.random() < 0.3 else source
        length = source.randrange(1, self._longest)
        prompt = [shared.randrange(self._vocabulary) for _ in range(length)]
        sampling = Sampling(seed=self._left, temperature=source.choice([0.0, 1.0]), top_p=source.choice([1.0, 0.9]))
        return Submit(name, prompt, [], sampling, source.randrange(longest // 2, longest), [])

    def _hear(self, events: Sequence[OwnedEvent]) -> None:
        for owned in events:
            if isinstance(owned.event, Finished):
                self._open.discard(owned.event.id)
                self._doomed.pop(owned.event.id, None)
                self.ended += 1
                self.cancelled += owned.event.reason is FinishReason.CANCELLED


def memory_after(batch: Batch, requests: int, seconds: float, longest: int = 400) -> dict[str, float]:
    """Let the crowd through, for so many seconds at most; active memory before and after."""
    _through(batch, IN_FLIGHT * 2, seconds, longest)
    before = _at_rest(batch)
    began = time.monotonic()
    crowd = _through(batch, requests, seconds, longest)
    took_s = time.monotonic() - began
    after = _at_rest(batch)
    return {
        "requests": float(crowd.ended),
        "cancelled": float(crowd.cancelled),
        "seconds": took_s,
        "active before MB": before / 1e6,
        "active after MB": after / 1e6,
        "after / before": after / before,
        "preemptions": float(crowd.reading.preemptions),
    }


def _through(batch: Batch, requests: int, seconds: float, longest: int) -> Crowd:
    limits = batch.limits
    pace = PrefillPace(256, 0.1)
    crowd = Crowd(requests, time.monotonic() + seconds, batch.vocabulary, min(longest, limits.context_tokens - 50))
    scheduler = Scheduler(limits.max_running, limits.max_waiting, pace.chunk)
    EngineLoop(crowd, scheduler, batch, pace, time.monotonic).run()
    batch.check_integrity()
    return crowd


def _at_rest(batch: Batch) -> int:
    """Active bytes with nothing left of the crowd but what leaked."""
    for level in (2, 2, 0):
        batch.reclaim(level)
    memory = batch.memory()
    assert memory.kv == 0, f"{memory.kv} bytes of KV are still counted"
    assert memory.active is not None
    return memory.active


def load(model: Path, folder: Path, engine: Engine) -> MlxBatch:
    """A batch as an engine process would make it, here."""
    from stoker.engine.loading import load_batch

    return load_batch(
        EngineProcess(
            name="bench",
            model_name="bench",
            model_path=model,
            socket=folder / "none",
            kv_path=folder / "kv",
            epoch=1,
            engine=engine,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--kv-budget", type=int, help="bytes; absent, what the engine would choose")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = preload_environment(os.environ)
    if wanted != dict(os.environ):
        # The library must be there before the process starts.
        os.execve(sys.executable, [sys.executable, "-m", "tests.bench.memory_returns", *sys.argv[1:]], wanted)
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or make_tiny_llama(Path(folder) / "model")
        batch = load(model.resolve(), Path(folder), Engine(kv_budget_bytes=options.kv_budget))
        figures = memory_after(batch, options.requests, options.seconds)
        batch.close()
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for what, value in figures.items():
            print(f"{what:20}{value:12.4f}")


if __name__ == "__main__":
    main()

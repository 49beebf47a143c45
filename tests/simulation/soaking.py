"""A soak run in simulated time: the real runner, gates and report, on a tree, a load and chaos that only pretend.

Everything that the world does is written down by itself too, so that what the run says can be checked against it.

    python -m tests.simulation.soaking [--hours 72] [--leak MB_PER_HOUR] [--slow FACTOR] [--report FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec

from stoker.config import Gates
from stoker.soak.chaos import rule
from stoker.soak.intervals import Act, IncidentSeen, Interval
from stoker.soak.keeping import Keeping, Run
from stoker.soak.outcome import Outcome
from stoker.soak.plan import Plan
from stoker.soak.references import REFERENCE
from stoker.soak.report.files import write
from stoker.soak.run import Parts, Soak
from stoker.watchdog.journal import records
from stoker.watchdog.samples import EngineReading, HostReading, Sample, ServiceReading
from stoker.watchdog.soak_news import SoakNews
from stoker.watchdog.status import Status
from tests.simulation.loop import simulated

BEGAN = 1_800_000_000.0
HOUR_S = 3600.0
REQUEST_EVERY_S = 20.0
SAMPLE_EVERY_S = 5.0
ANSWER = "the same words every time, as long as nothing is lost on the way"


@dataclass
class World:
    """What happens, and what happened."""

    leak_bytes_per_hour: float = 0.0
    slow_after_s: float = float("inf")
    slow_factor: float = 1.0
    outcomes: list[tuple[float, Outcome]] = field(default_factory=list)
    """With the moment at which each ended."""
    kills: list[tuple[float, float]] = field(default_factory=list)
    """When, and when it was over."""
    news: list[SoakNews] = field(default_factory=list)

    def now(self) -> float:
        return BEGAN + asyncio.get_running_loop().time()

    def memory_bytes(self, at: float) -> float:
        """MLX's beside weights and KV: a daily rhythm of the load, and what leaks."""
        hour = (at - BEGAN) / HOUR_S
        return 2e8 + self.leak_bytes_per_hour * hour + 5e6 * ((at // 7) % 5)


class PretendedLoad:
    """Requests at random, each a little different."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._draw = random.Random(seed)

    async def ask(self, number: int, on_outcome: Callable[[Outcome], None], clock: Callable[[], float]) -> None:
        while True:
            await asyncio.sleep(self._draw.expovariate(1 / REQUEST_EVERY_S))
            began = self._world.now() - clock()
            outcome = self._outcome(clock(), len(self._world.outcomes))
            self._world.outcomes.append((began + outcome.ended, outcome))
            on_outcome(outcome)

    def _outcome(self, ended: float, number: int) -> Outcome:
        draw, world = self._draw, self._world
        slow = world.slow_factor if world.now() >= BEGAN + world.slow_after_s else 1.0
        ttft, gap = draw.lognormvariate(-1.5, 0.4) * slow, draw.lognormvariate(-3.0, 0.2) * slow
        tokens = draw.randint(20, 100)
        intended = ended - ttft - gap * (tokens - 1)
        return Outcome(
            workload=REFERENCE if number % 7 == 0 else "chat",
            conversation=number % 4,
            turn=0,
            intended=intended,
            sent=intended,
            first_token=intended + ttft,
            ended=ended,
            gaps=(gap,) * (tokens - 1),
            prompt_tokens=300,
            cached_tokens=draw.randint(60, 180),
            completion_tokens=tokens,
            text=ANSWER,
        )

    def lag_s(self) -> float:
        return 0.001


class PretendedTree:
    """Up, but for the moments after a kill."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._told = 0.0

    @property
    def wanted(self) -> bool:
        return True

    async def status(self) -> Status | None:
        return None

    async def tell(self, news: SoakNews) -> None:
        self._world.news.append(news)

    async def samples(self) -> list[Sample]:
        now = self._world.now()
        first = int(max(self._told, now - 120.0) // SAMPLE_EVERY_S) + 1
        self._told = now
        return [self._sample(number * SAMPLE_EVERY_S) for number in range(first, int(now // SAMPLE_EVERY_S) + 1)]

    def _sample(self, at: float) -> Sample:
        running = int(at // 7) % 5
        rest = self._world.memory_bytes(at)
        kv, weights = 1_000_000 * running, 500_000_000
        active = int(rest) + kv + weights
        engine = EngineReading(
            epoch=1,
            running=running,
            waiting=0,
            context_tokens=300 * running,
            active_bytes=active,
            cache_bytes=20_000_000,
            weights_bytes=weights,
            kv_bytes=kv,
            footprint_bytes=active + 120_000_000,
        )
        service = ServiceReading(footprint_bytes=90_000_000 + 1000 * (int(at) % 50))
        deaths = sum(at >= since for since, _ in self._world.kills)
        return Sample(at - BEGAN, at, engine, service, HostReading(), engine_deaths_total=deaths)

    async def spells(self, window_s: float) -> list[records.Interval]:
        now = self._world.now()
        edges = [
            (BEGAN, "up"),
            *(edge for since, until in self._world.kills for edge in ((since, "down"), (until, "up"))),
        ]
        whole = [*edges, (now, "")]
        found = [records.Interval("tree", since, until, state) for (since, state), (until, _) in pairwise(whole)]
        return [each for each in found if each.until > now - window_s]

    async def incidents(self, window_s: float) -> list[IncidentSeen]:
        least = self._world.now() - window_s
        kills = enumerate(self._world.kills)
        return [IncidentSeen(str(n), "engine_death", at, "killed", over) for n, (at, over) in kills if over >= least]


class PretendedActs:
    """A kill, and a recovery of two to four seconds."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._draw = random.Random(seed)

    async def do(self, kind: str, within_s: float) -> Act:
        at = self._world.now()
        over = at + self._draw.uniform(2.0, 4.0)
        self._world.kills.append((at, over))
        await asyncio.sleep(over - at)
        return Act(kind, at, at, over)


class Memory(Keeping):
    """Keeps the intervals where a database would."""

    def __init__(self) -> None:
        super().__init__("nowhere")
        self.kept: list[Interval] = []

    async def save(self, run: Run, new: Sequence[Interval] = ()) -> bool:
        # As it would be read back.
        self.kept += [msgspec.json.decode(msgspec.json.encode(each), type=Interval) for each in new]
        return True


@dataclass(frozen=True)
class Soaked:
    """A run that is over, and the world it ran in."""

    run: Run
    intervals: list[Interval]
    world: World


def soaked(
    hours: float, world: World, chaos: Iterable[str] = (), killed_at_h: float | None = None, away_s: float = 1200.0
) -> Soaked:
    """A whole run; `killed_at_h` is when everything of it is killed, to go on `away_s` later."""
    plan = Plan(
        duration_s=hours * HOUR_S,
        workload="chat",
        scale=1.0,
        seed=1,
        chaos=tuple(map(rule, chaos)),
        gates=Gates().model_dump(),
        model="simulated",
    )
    return simulated(_soak(plan, world, killed_at_h, away_s))


async def _soak(plan: Plan, world: World, killed_at_h: float | None, away_s: float) -> Soaked:
    keeping, run = Memory(), Run("20270115-080000-abcd", BEGAN, plan)

    def soak(seed: int) -> Soak:
        load, acts = PretendedLoad(world, seed), PretendedActs(world, seed)
        return Soak(run, list(keeping.kept), Parts(PretendedTree(world), load, acts, keeping, clock=world.now))

    if killed_at_h is not None:
        first = asyncio.create_task(soak(1).run())
        await asyncio.sleep(killed_at_h * HOUR_S)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(away_s)
    over = await soak(2).run()
    return Soaked(over, keeping.kept, world)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=72.0)
    parser.add_argument("--leak", type=float, default=0.0, help="MB an hour")
    parser.add_argument("--slow", type=float, default=1.0, help="how many times slower the last third is")
    parser.add_argument("--report", type=Path, default=Path("build/soak"))
    options = parser.parse_args()
    began = time.monotonic()
    world = World(1e6 * options.leak, options.hours * HOUR_S * 2 / 3, options.slow)
    done = soaked(options.hours, world, ["kill:1h"], killed_at_h=options.hours / 2)
    written = write(options.report, done.run, done.intervals)
    assert done.run.result is not None
    print(f"{options.hours:g} h in {time.monotonic() - began:.1f} s: {done.run.result.verdict.outcome.value}")
    for sentence in done.run.result.verdict.reasons:
        print(f"  {sentence}")
    print(*written, sep="\n")


if __name__ == "__main__":
    main()

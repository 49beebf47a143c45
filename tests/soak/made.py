"""Intervals, summaries and runs made up for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from stoker.config import Gates
from stoker.soak.histogram import Histogram
from stoker.soak.intervals import ENGINE_MLX, Act, IncidentSeen, Interval, Low, Spell
from stoker.soak.keeping import Run
from stoker.soak.plan import Plan
from stoker.soak.run import judged

BEGAN = 1_800_000_000.0
LENGTH_S = 60.0
PLAN = Plan(
    duration_s=3600.0, workload="chat", scale=1.0, seed=1, chaos=(), gates=Gates().model_dump(), model="simulated"
)


def latencies(count: int, mean_s: float, seed: int) -> Histogram:
    """Exponential, as those of a queue."""
    draw, made = random.Random(seed), Histogram()
    for _ in range(count):
        made.add(draw.expovariate(1 / mean_s))
    return made


def interval(
    number: int, *, ttft_s: float = 0.1, memory: float = 1e8, state: str = "up", **changes: object
) -> Interval:
    """A good minute: ten requests, everything up, a third of the prompts cached."""
    since = BEGAN + LENGTH_S * number
    good = Interval(
        number,
        since,
        since + LENGTH_S,
        requests=10,
        prompt_tokens=3000,
        cached_tokens=1000,
        completion_tokens=1000,
        compared=2,
        ttft=latencies(10, ttft_s, number),
        tpot=latencies(10, 0.03, number + 10_000),
        concurrency=2.0,
        memory={"engine footprint": 2 * memory, "service footprint": 1e8},
        lows={ENGINE_MLX: Low(since + 1.0, memory + 1e3 * (number % 7), number % 3, 100 * (number % 3), 1)},
        spells=(Spell(since, since + LENGTH_S, state),),
    )
    return msgspec.structs.replace(good, **changes)


def hours(count: float, **changes: object) -> list[Interval]:
    """Good ones, one after the other."""
    return [interval(number, **changes) for number in range(round(60 * count))]  # type: ignore[arg-type]


def run_of(intervals: Sequence[Interval], plan: Plan = PLAN) -> Run:
    """A run that is over."""
    run = Run("20270115-080000-abcd", BEGAN, plan)
    ended_at = intervals[-1].until
    return msgspec.structs.replace(run, state="ended", ended_at=ended_at, result=judged(run, intervals))


def kill(at: float, recovered_after_s: float | None = 2.0) -> Act:
    return Act("kill", at, at, None if recovered_after_s is None else at + recovered_after_s, "")


def death(at: float, kind: str = "engine_death") -> IncidentSeen:
    return IncidentSeen(f"{kind}-{at}", kind, at, "killed by SIGKILL", at + 2.0)

"""`stoker bench URL`: warm-up, the sweep, and the report on it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ... import __version__
from ..target import Target
from ..workloads import Workload, workload
from ..workloads.arrivals import Closed
from .figures import METRICS, Seen
from .report import Report, Table, metric_rows
from .sitting import Watched, sit, warm_up
from .sweep import Level, full_at, slow_at, sweep


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked, for how long, and how often."""

    workload: str = "chat"
    scale: float = 1.0
    seed: int = 1
    seconds: float = 30.0
    repeats: int = 3
    steps: tuple[int, ...] = (1, 2, 4, 8, 16)

    def asked(self, streams: int, repeat: int) -> Workload:
        """New texts for each sitting, so that no cache knows them from the one before; people's pauses are left out."""
        return workload(self.workload, self.seed + 1000 * repeat + streams, Closed(streams), self.scale, pauses=0.0)


async def bench(target: Target, plan: Plan, watched: Watched, on_sitting: Callable[[int, int], None]) -> Report:
    """`on_sitting(streams, repeat)` hears of each before it begins. Raises `TargetUnusable`."""

    async def one(streams: int, repeat: int) -> Seen:
        on_sitting(streams, repeat)
        return await sit(target, plan.asked(streams, repeat), plan.seconds, watched)

    plan.asked(1, 0)  # refused before the target is troubled
    await warm_up(target, min(plan.steps[-1], 8))
    levels = await sweep(one, plan.steps, plan.repeats)
    return _report(target, plan, levels)


def _report(target: Target, plan: Plan, levels: Sequence[Level]) -> Report:
    columns = tuple(f"{level.streams} stream{'s' if level.streams > 1 else ''}" for level in levels)
    rows = metric_rows(
        [{metric.key: level.estimate(metric.key) for metric in METRICS} for level in levels], judged=False
    )
    return Report(
        f"Benchmark of {target.model}",
        (
            ("target", f"{target.url} ({target.api})"),
            *plan_facts(plan),
            ("sittings", f"{plan.repeats} of {plan.seconds:.0f} s with each number of streams, after a warm-up"),
        ),
        (Table("By number of streams", columns, rows),),
        (*_concurrency(levels), *lag_notes([seen for level in levels for seen in level.sittings])),
    )


def plan_facts(plan: Plan) -> tuple[tuple[str, str], ...]:
    """What every report says about how it was made."""
    return (
        ("workload", f"{plan.workload}, seed {plan.seed}, {plan.scale:g} times its lengths, without pauses"),
        ("machine", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("when", datetime.now(UTC).isoformat(timespec="seconds")),
        ("by", f"stoker {__version__}"),
    )


def _concurrency(levels: Sequence[Level]) -> tuple[str, ...]:
    full, slow = full_at(levels), slow_at(levels)
    return (
        f"Full at {full} streams: twice as many bring less than 5 % more tokens a second."
        if full
        else f"Not full with {levels[-1].streams} streams: more might bring more.",
        f"From {slow} streams on, the slowest twentieth waits twice as long for a first word as one stream alone does."
        if slow
        else "TTFT's p95 never doubled.",
    )


def lag_notes(sittings: Sequence[Seen]) -> tuple[str, ...]:
    """What a reader must know: what the client itself added, in the worst sitting, and what nobody counted."""
    worst = max((seen.lag for seen in sittings), key=lambda lag: lag.p99_s)
    uncounted = any(o.ok and o.completion_tokens is None for seen in sittings for o in seen.outcomes)
    told = "The target does not count tokens: one was counted for each arrival of text." if uncounted else None
    return tuple(note for note in (f"{worst.sentence()[:1].upper()}{worst.sentence()[1:]}.", told) if note)

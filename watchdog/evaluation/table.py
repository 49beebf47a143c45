"""Many runs, counted: one row a kind, and the two figures that everything is about."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec
import numpy as np
from rich.table import Table

from ..verdicts import DetectorName
from .healthy import HEALTHY
from .judge import Half, Outcome, judged, seeds
from .sick import SICK

MOST_FALSE = 0.01
FEWEST_FOUND = 0.99
BOUND = (DetectorName.LEAK, DetectorName.SWAP, DetectorName.THERMAL)


class Row(msgspec.Struct, frozen=True):
    """One kind. `required` runs must be found by a deadline; the others may be, and count only as found or not."""

    kind: str
    sick: bool
    runs: int
    required: int
    in_time: int
    found: int
    median_found_s: float | None
    false: int
    false_by: dict[str, int]


class Report(msgspec.Struct, frozen=True):
    """All kinds. `false_share` is of the healthy runs, by any detector."""

    seed: int
    runs_a_kind: int
    half: str
    healthy_runs: int
    false_share: float
    found_share: dict[DetectorName, float]
    """By what must be found: the share of the runs that require it in which it was found in time."""
    rows: list[Row]

    def broken(self) -> list[str]:
        """The bounds that do not hold, a sentence each."""
        missed = [
            f"{name} is found in time in {self.found_share[name]:.2%} of the runs, and must be in {FEWEST_FOUND:.0%}"
            for name in BOUND
            if name in self.found_share and self.found_share[name] < FEWEST_FOUND
        ]
        if self.false_share > MOST_FALSE:
            missed.append(
                f"{self.false_share:.2%} of the healthy runs raise an alarm, and at most {MOST_FALSE:.0%} may"
            )
        return missed


def evaluate(seed: int, runs: int, half: Half, kinds: Sequence[str] = (*HEALTHY, *SICK)) -> Iterator[Outcome]:
    """The outcomes of all runs as they come, over all cores."""
    tasks = [(kind, each) for each in seeds(seed, runs, half) for kind in kinds]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield from pool.map(judged, tasks, chunksize=4)


def total(seed: int, runs: int, half: Half, kinds: Sequence[str] = (*HEALTHY, *SICK)) -> int:
    return len(seeds(seed, runs, half)) * len(kinds)


def report(outcomes: Sequence[Outcome], seed: int, runs: int, half: Half) -> Report:
    healthy = [outcome for outcome in outcomes if outcome.kind in HEALTHY]
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    return Report(
        seed=seed,
        runs_a_kind=len(seeds(seed, runs, half)),
        half=half,
        healthy_runs=len(healthy),
        false_share=sum(bool(outcome.false) for outcome in healthy) / max(len(healthy), 1),
        found_share=_found_share(outcomes),
        rows=[_row(kind, [outcome for outcome in outcomes if outcome.kind == kind]) for kind in kinds],
    )


def _found_share(outcomes: Sequence[Outcome]) -> dict[DetectorName, float]:
    required = [outcome for outcome in outcomes if outcome.required and outcome.detector is not None]
    runs = Counter(outcome.detector for outcome in required)
    found = Counter(outcome.detector for outcome in required if outcome.in_time)
    return {name: found[name] / count for name, count in runs.items() if name is not None}


def _row(kind: str, outcomes: list[Outcome]) -> Row:
    found = [outcome.found_s for outcome in outcomes if outcome.found_s is not None]
    return Row(
        kind=kind,
        sick=kind in SICK,
        runs=len(outcomes),
        required=sum(outcome.required for outcome in outcomes),
        in_time=sum(outcome.required and outcome.in_time for outcome in outcomes),
        found=len(found),
        median_found_s=float(np.median(found)) if found else None,
        false=sum(bool(outcome.false) for outcome in outcomes),
        false_by=dict(Counter(str(name) for outcome in outcomes for name in outcome.false)),
    )


def table(made: Report) -> Table:
    shown = Table("kind", "runs", "must be found", "in time", "found at all", "after (median)", "false", "by", box=None)
    for row in made.rows:
        after = "" if row.median_found_s is None else f"{row.median_found_s / 60:.0f} min"
        in_time = f"{row.in_time / row.required:.1%}" if row.required else ""
        by = ", ".join(f"{name} {count}" for name, count in row.false_by.items())
        must, found = (str(row.required), str(row.found)) if row.sick else ("", "")
        shown.add_row(row.kind, str(row.runs), must, in_time, found, after, str(row.false), by)
    return shown

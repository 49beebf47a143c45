"""Many runs on both processors: `python -m tests.simulation.run --runs 1000 --hours 72`; `--seed N` replays one."""

from __future__ import annotations

import argparse
import concurrent.futures
import sys
import time
import traceback
from multiprocessing import get_context
from typing import NoReturn

import structlog

from tests.simulation.days import Days, Report

PROCESSES = 2


def one(seed: int, hours: float) -> Report | str:
    """The report, or what went wrong."""
    structlog.configure(processors=[_say_nothing])
    try:
        return Days(seed, hours).run()
    except Exception:
        return f"seed {seed}: {traceback.format_exc()}"


def many(seeds: range, hours: float) -> tuple[list[Report], list[str]]:
    """Reports, and failures."""
    # Not by fork: whoever calls may have threads, as a worker of pytest's has.
    with concurrent.futures.ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(one, seeds, [hours] * len(seeds), chunksize=4))
    reports = [result for result in results if isinstance(result, Report)]
    return reports, [result for result in results if isinstance(result, str)]


def _say_nothing(*event: object) -> NoReturn:
    """A service under fire logs more than anybody reads of a thousand runs."""
    raise structlog.DropEvent


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=72.0)
    parser.add_argument("--seed", type=int, help="one run alone, to see its failure again")
    asked = parser.parse_args()
    seeds = range(asked.runs) if asked.seed is None else range(asked.seed, asked.seed + 1)
    began = time.monotonic()
    reports, failures = many(seeds, asked.hours)
    print(
        f"{len(seeds)} runs of {asked.hours:g} hours in {time.monotonic() - began:.0f} s:",
        f"{sum(report.ended for report in reports)} requests, {sum(report.finished for report in reports)} finished,",
        f"{sum(report.quarantined for report in reports)} quarantined,",
        f"{sum(report.refused for report in reports)} refused,",
        f"{sum(report.starts for report in reports)} restarts, {len(failures)} failures",
    )
    for failure in failures[:3]:
        print(failure)
    if failures:
        print(f"replay the first with: python -m tests.simulation.run --hours {asked.hours:g} --seed", end=" ")
        print(failures[0].split(":")[0].removeprefix("seed "))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

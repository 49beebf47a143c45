"""One run through the real detectors: what fired first when, and whether that was right."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ..panel import Panel
from ..verdicts import DetectorName, Level
from .healthy import HEALTHY
from .run import Run
from .sick import SICK


class Half(StrEnum):
    """Bounds are tuned on one half of the seeds, figures are reported from the other."""

    TUNE = "tune"
    REPORT = "report"


@dataclass(frozen=True)
class Outcome:
    """`false` fired although nothing was wrong (yet); `found_s` is from the onset on, None when it was not found."""

    kind: str
    seed: int
    detector: DetectorName | None
    required: bool
    in_time: bool
    found_s: float | None
    left_share: float | None
    """Of the time from onset to deadline, what was left when it was found; below 0 it was late."""
    false: tuple[DetectorName, ...]


def seeds(seed: int, runs: int, half: Half) -> range:
    """`runs` seeds are two halves: the even ones to tune on, the odd ones to report."""
    return range(seed + (half is Half.REPORT), seed + runs, 2)


def make(kind: str, seed: int) -> Run:
    """The same run for the same kind and seed, on any machine."""
    draw = np.random.default_rng([seed, *kind.encode()])
    return (HEALTHY | SICK)[kind](kind, seed, draw)


def judge(run: Run) -> Outcome:
    panel = Panel()
    first: dict[DetectorName, float] = {}
    for sample in run.samples():
        for verdict in panel.update(sample):
            if verdict.level is Level.FIRING:
                first.setdefault(verdict.detector, sample.at)
    truth = run.truth
    found_at = None if truth.detector is None else first.get(truth.detector)
    found_s = None if found_at is None or found_at < truth.began_s else max(found_at - truth.onset_s, 0.0)
    left = None
    if found_s is not None and truth.deadline_s is not None:
        left = 1 - found_s / (truth.deadline_s - truth.onset_s)
    return Outcome(
        kind=run.kind,
        seed=run.seed,
        detector=truth.detector,
        required=truth.deadline_s is not None,
        in_time=left is not None and left >= 0,
        found_s=found_s,
        left_share=left,
        false=tuple(name for name, at in first.items() if at < truth.began_s),
    )


def judged(task: tuple[str, int]) -> Outcome:
    """For another process."""
    return judge(make(*task))

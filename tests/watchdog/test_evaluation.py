"""The evaluation in its short form: one run of each kind, and that its own truth is true. `make evaluate` is whole."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.watchdog.evaluation.healthy import HEALTHY
from stoker.watchdog.evaluation.judge import Half, Outcome, judge, make, seeds
from stoker.watchdog.evaluation.sick import SICK
from stoker.watchdog.evaluation.table import report
from stoker.watchdog.verdicts import DetectorName


@pytest.mark.parametrize("kind", HEALTHY)
def test_a_healthy_run_raises_no_alarm(kind: str) -> None:
    assert judge(make(kind, 2)).false == ()


@pytest.mark.parametrize("kind", [kind for kind in SICK if kind != "fragmentation"])
def test_a_sick_run_is_found_in_time(kind: str) -> None:
    run = next(run for run in (make(kind, seed) for seed in range(2, 60)) if run.truth.deadline_s is not None)
    outcome = judge(run)
    assert outcome.false == ()
    assert outcome.in_time


def test_fragmentation_is_found() -> None:
    outcome = judge(make("fragmentation", 2))
    assert outcome.found_s is not None
    assert outcome.false == ()


@pytest.mark.parametrize("kind", ["restarts", "missing_samples", "leak_per_request"])
def test_the_same_seed_makes_the_same_run(kind: str) -> None:
    assert list(make(kind, 5).samples()) == list(make(kind, 5).samples())
    assert list(make(kind, 5).samples()) != list(make(kind, 6).samples())


@pytest.mark.parametrize("kind", [*HEALTHY, *SICK])
def test_time_goes_on_and_readings_are_possible(kind: str) -> None:
    samples = list(make(kind, 3).samples())
    assert np.all(np.diff([sample.at for sample in samples]) > 0)
    for sample in samples:
        if (engine := sample.engine) is not None and engine.weights_bytes and engine.kv_bytes and engine.active_bytes:
            assert engine.active_bytes >= engine.weights_bytes + engine.kv_bytes


def test_the_halves_share_no_seed() -> None:
    tuned, reported = seeds(1, 200, Half.TUNE), seeds(1, 200, Half.REPORT)
    assert len(tuned) == len(reported) == 100
    assert not set(tuned) & set(reported)


def outcome(kind: str, detector: DetectorName | None, in_time: bool, false: tuple[DetectorName, ...] = ()) -> Outcome:
    required = detector is not None
    return Outcome(kind, 1, detector, required, in_time, 60.0 if in_time else None, None, false)


def test_a_broken_bound_is_named_with_its_figure() -> None:
    missed = [outcome("leak", DetectorName.LEAK, number > 0) for number in range(10)]
    assert "90.00%" in report(missed, 1, 20, Half.TUNE).broken()[0]
    false = [outcome("flat", None, False, (DetectorName.SWAP,) * (number == 0)) for number in range(10)]
    assert "10.00%" in report(false, 1, 20, Half.TUNE).broken()[0]
    assert report(missed[1:], 1, 18, Half.TUNE).broken() == []

"""Slow-down: decoding is compared with what this machine did at the same batch and context."""

from __future__ import annotations

import random

import msgspec

from stoker.watchdog.detectors.slowdown import SlowdownDetector
from stoker.watchdog.samples import EngineReading, Sample
from stoker.watchdog.verdicts import Level, Number, Verdict
from tests.watchdog.detectors.feeding import sample

DRAW = random.Random(3)


def working(minute: int, slower: float = 1.0, rows: int | None = None, weights: int = 4) -> Sample:
    """A minute of decoding of some rows over some context."""
    rows = rows or DRAW.randrange(1, 6)
    context = rows * DRAW.randrange(500, 8000)
    seconds = (0.02 + 0.003 * rows + 3e-7 * context) * slower * DRAW.lognormvariate(0, 0.04)
    reading = EngineReading(
        epoch=1, batch=rows, context_tokens=context, decode_tokens_per_s=rows / seconds, weights_bytes=weights
    )
    return sample(minute * 60.0, reading)


def lived(detector: SlowdownDetector, minutes: range, slower: float = 1.0) -> Verdict:
    verdict = detector.update(working(minutes[0], slower))
    for minute in minutes[1:]:
        verdict = detector.update(working(minute, slower))
    return verdict


def test_half_the_speed_is_found_within_a_quarter_of_an_hour_and_forgotten_after_it() -> None:
    detector = SlowdownDetector()
    assert lived(detector, range(200)).level is Level.OK
    slow = lived(detector, range(200, 215), slower=2.0)
    assert slow.level is Level.FIRING
    assert 1.7 < slow.numbers[Number.SLOWDOWN_RATIO] < 2.3
    assert lived(detector, range(215, 245)).level is Level.OK


def test_larger_batches_and_longer_contexts_are_not_slow() -> None:
    detector = SlowdownDetector()
    lived(detector, range(200))
    for minute in range(200, 260):
        verdict = detector.update(working(minute, rows=5))
    assert verdict.level is Level.OK


def test_a_slow_decline_does_not_become_usual() -> None:
    detector = SlowdownDetector()
    lived(detector, range(200))
    levels = [detector.update(working(minute, slower=1 + (minute - 200) / 600)).level for minute in range(200, 800)]
    assert Level.FIRING in levels


def test_a_reading_without_its_context_is_not_judged() -> None:
    detector = SlowdownDetector()
    lived(detector, range(200))
    for minute in range(200, 260):
        whole = working(minute)
        assert whole.engine is not None
        cut = msgspec.structs.replace(whole, engine=msgspec.structs.replace(whole.engine, context_tokens=None))
        verdict = detector.update(cut)
    assert verdict.level is Level.OK


def test_another_model_is_learned_anew() -> None:
    detector = SlowdownDetector()
    lived(detector, range(200))
    levels = {detector.update(working(minute, slower=3.0, weights=9)).level for minute in range(200, 400)}
    assert levels == {Level.OK}

"""Leaks: steady growth is found in time to do something about it; habits of healthy processes are not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.watchdog.detectors.leak import LeakDetector
from stoker.watchdog.detectors.trend import rises_steadily, trend, without_load
from stoker.watchdog.samples import EngineReading, Sample
from stoker.watchdog.verdicts import Level, Number
from tests.watchdog.detectors.feeding import GB, MB, sample

HOUR_S = 3600.0
DRAW = random.Random(7)


def engine(at: float, grown: float, running: int = 1, requests: int | None = None) -> Sample:
    """An engine with 4 GB of weights, 1 GB of KV and 8 GB of room, under a load that takes 50 MB a request."""
    active = 5.3 * GB + 50 * MB * running + grown + DRAW.gauss(0, 5) * MB
    reading = EngineReading(
        epoch=1,
        running=running,
        active_bytes=int(active),
        weights_bytes=4 * GB,
        kv_bytes=GB,
        footprint_bytes=int(active + GB),
        cache_bytes=GB // 2,
        limit_bytes=int(13.3 * GB),
        requests_total=requests,
    )
    return sample(at, reading)


def first_firing(hours: float, make: Callable[[float], Sample], every: float = 60.0) -> float | None:
    """Hours until the leak fires."""
    detector = LeakDetector()
    for tick in range(int(hours * HOUR_S / every)):
        verdict = detector.update(make(tick * every))
        if verdict.level is Level.FIRING:
            return tick * every / HOUR_S
    return None


@pytest.mark.parametrize("bytes_per_hour", [0.15 * GB, 0.5 * GB, 2 * GB, 5 * GB])
def test_a_leak_is_found_with_a_third_of_the_time_left(bytes_per_hour: float) -> None:
    lasts = 8 * GB / bytes_per_hour
    found = first_firing(lasts, lambda at: engine(at, at / HOUR_S * bytes_per_hour, running=DRAW.randrange(4)))
    assert found is not None
    assert found < 2 / 3 * lasts


def test_a_leak_of_each_request_is_found_in_the_quiet_night_before_the_busy_day() -> None:
    """1 MB a request; 400 an hour on the day before, 120 in the night: nights would take three days, days one."""

    def requests(at: float) -> int:
        return int(min(at / HOUR_S, 24.0) * 400 + max(at / HOUR_S - 24, 0) * 120)

    def leaking(at: float) -> Sample:
        # Now and then the count is not known.
        told = None if int(at / 60) % 7 == 0 else requests(at)
        return engine(at, MB * max(requests(at) - requests(24 * HOUR_S), 0), requests=told)

    found = first_firing(34, leaking)
    assert found is not None


def test_the_verdict_tells_the_slope_its_bound_and_what_is_left() -> None:
    detector = LeakDetector()
    for minute in range(180):
        verdict = detector.update(engine(minute * 60.0, minute / 60 * GB))
    assert verdict.level is Level.FIRING
    slope = verdict.numbers[Number.SLOPE_BYTES_PER_HOUR]
    assert slope == pytest.approx(GB, rel=0.05)
    assert verdict.numbers[Number.SLOPE_LOWER_BOUND_BYTES_PER_HOUR] <= slope
    assert verdict.numbers[Number.EXHAUSTION_SECONDS] == pytest.approx(5 * HOUR_S, rel=0.15)
    assert "MB/h" in verdict.sentence


def test_a_leak_outside_mlx_is_found_by_the_footprint() -> None:
    def leaking(at: float) -> Sample:
        reading = EngineReading(
            epoch=1,
            active_bytes=5 * GB,
            weights_bytes=4 * GB,
            kv_bytes=GB,
            footprint_bytes=int(6 * GB + at / HOUR_S * 0.5 * GB),
            limit_bytes=13 * GB,
        )
        return sample(at, reading)

    assert first_firing(16, leaking) is not None


@pytest.mark.parametrize(
    "grown",
    [
        lambda at: 0.0,
        lambda at: GB * (at > 20 * HOUR_S),
        lambda at: 0.3 * GB * (1 + math.sin(at / HOUR_S * math.pi / 12)),
        lambda at: GB * (at / (3 * HOUR_S) % 1),
        lambda at: 0.4 * GB * (1 - math.exp(-at / HOUR_S / 6)),
    ],
    ids=["flat", "new plateau", "day and night", "sawtooth", "warm-up"],
)
def test_habits_of_healthy_processes_are_no_leak(grown: Callable[[float], float]) -> None:
    assert first_firing(72, lambda at: engine(at, grown(at), running=DRAW.randrange(4))) is None


def test_what_the_load_takes_is_no_leak_while_the_load_grows() -> None:
    assert first_firing(24, lambda at: engine(at, 0.0, running=int(at / HOUR_S))) is None


def test_growth_is_ok_while_it_is_too_early_to_know() -> None:
    assert LeakDetector().update(engine(0.0, 0.0)).level is Level.OK


@given(st.floats(-1e3, 1e3), st.floats(0.1, 1e3), st.integers(10, 40))
def test_the_slope_of_a_line_is_its_slope(slope: float, scale: float, points: int) -> None:
    t = np.arange(points, dtype=np.float64) * scale
    found = trend(t, slope * t)
    assert found.slope == pytest.approx(slope, abs=1e-6)
    assert found.lower <= found.slope + 1e-6


@given(st.lists(st.floats(-1e9, 1e9), min_size=8, max_size=40), st.floats(-1e9, 1e9))
def test_a_trend_does_not_depend_on_where_the_series_begins(values: list[float], offset: float) -> None:
    t, y = np.arange(len(values), dtype=np.float64), np.array(values)
    assert trend(t, y + offset).slope == pytest.approx(trend(t, y).slope, abs=1e-3)


@given(st.lists(st.floats(0, 1e9), min_size=12, max_size=40))
def test_a_series_and_its_mirror_never_both_rise(values: list[float]) -> None:
    t, y = np.arange(len(values), dtype=np.float64), np.array(values)
    assert not (rises_steadily(t, y) and rises_steadily(t, -y))


def test_a_step_does_not_rise_steadily() -> None:
    t = np.arange(24.0)
    assert not rises_steadily(t, np.repeat([0.0, 1.0], 12))
    assert rises_steadily(t, t)


def test_a_series_with_a_long_gap_does_not_rise_steadily() -> None:
    t = np.array([0.0, 1.0, 2.0, 3.0, 40.0, 41.0, 42.0, 43.0])
    assert not rises_steadily(t, t)


@pytest.mark.parametrize(("memory", "most"), [(0.0, 0.03), (0.8, 0.15)])
def test_noise_is_seldom_a_trend_even_when_it_remembers(memory: float, most: float) -> None:
    draw = np.random.default_rng(1)
    alarms = 0
    for _ in range(200):
        walk = np.zeros(36)
        for index in range(1, 36):
            walk[index] = memory * walk[index - 1] + draw.normal()
        alarms += trend(np.arange(36.0), walk).p <= 0.01
    assert alarms <= 200 * most


def test_the_part_of_the_load_is_taken_away_and_the_rest_stays() -> None:
    t = np.arange(48.0)
    load = np.sin(t / 3) + 1
    left = without_load(t, 5 * t + 100 * load, load[:, None])
    assert np.allclose(np.diff(left), 5)

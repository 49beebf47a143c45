"""Healthy runs, of the kinds that make detectors cry wolf."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .machine import GB, MB, N, any_load, daily_load, draw_machine, flat_load, healthy, high_water
from .run import STEP_S, WALL_AT_START, Run

Make = Callable[[str, int, np.random.Generator], Run]


def flat(kind: str, seed: int, draw: np.random.Generator) -> Run:
    return healthy(kind, seed, draw, draw_machine(draw), flat_load(draw))


def daily_cycle(kind: str, seed: int, draw: np.random.Generator) -> Run:
    return healthy(kind, seed, draw, draw_machine(draw), daily_load(draw))


def bursts(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Hours of nothing, then everybody at once."""
    load = np.full(N, 0.02)
    for start in draw.integers(0, N, draw.integers(5, 40)):
        load[start : start + draw.integers(10, 180)] = draw.uniform(3, 14)
    return healthy(kind, seed, draw, draw_machine(draw), load)


def new_plateau(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """More users from one moment on, and buffers that stay larger since."""
    load = any_load(draw)
    start = int(draw.integers(60, N - 60))
    load[start:] *= draw.uniform(1.5, 4)
    run = healthy(kind, seed, draw, draw_machine(draw), load)
    grown = np.where(np.arange(N) >= start, draw.uniform(0.1, 0.9) * GB, 0)
    run.engine["active_bytes"] += grown
    run.engine["footprint_bytes"] += grown
    return run


def sawtooth(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Agents whose context grows for hours and begins anew."""
    hours = draw.uniform(1, 12)
    phase = (np.arange(N) * STEP_S / 3600 / hours + draw.uniform()) % 1
    return healthy(kind, seed, draw, draw_machine(draw), any_load(draw), tokens=2000 + phase * draw.uniform(10e3, 60e3))


def high_water_mark(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """An allocator that keeps the most it ever needed; every larger request adds a step."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    needs = draw.pareto(3, N) * draw.uniform(20, 80) * MB * (run.engine["running"] > 0)
    mark = np.minimum(high_water(needs, draw.uniform(2e3, 1e5)), 1.2 * GB)
    run.engine["footprint_bytes"] += mark
    return run


def cache_warm_up(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Caches that fill for hours, in part where nobody counts them."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    filled = 1 - np.exp(-np.arange(N) * STEP_S / 3600 / draw.uniform(1, 12))
    hidden = draw.uniform(50, 400) * MB * filled
    for name, grown in (("active_bytes", hidden), ("footprint_bytes", hidden)):
        run.engine[name] += grown
    return run


def model_swap(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Another model from one moment on: other weights, other speed, another process."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    after = np.arange(N) >= int(draw.integers(60, N - 60))
    run.engine["epoch"] += after
    grown = np.where(after, draw.uniform(-0.5, 0.1) * run.engine["weights_bytes"], 0)
    for name in ("weights_bytes", "active_bytes", "footprint_bytes"):
        run.engine[name] += grown
    run.engine["decode_tokens_per_s"] *= np.where(after, draw.uniform(0.3, 3), 1)
    return run


def restarts(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Planned restarts, each with a cold start and a minute or two without an engine."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    for start in draw.integers(30, N - 30, draw.integers(1, 8)):
        run.engine["epoch"][start:] += 1
        cold = np.where(np.arange(N) >= start, np.exp(-(np.arange(N) - start) / draw.uniform(60, 400)), 0)
        kept = run.engine["prefix_cache_bytes"] * cold
        for name in ("kv_bytes", "prefix_cache_bytes", "active_bytes", "footprint_bytes"):
            run.engine[name] -= kept
        for column in run.engine.values():
            column[start : start + draw.integers(1, 3)] = np.nan
    return run


def missing_samples(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Sensors that fail now and then, and minutes without any sample."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    share = draw.uniform(0.02, 0.3)
    for columns in (run.engine, run.host, run.service):
        for name, column in columns.items():
            if name not in ("epoch", "canary_s"):
                columns[name] = np.where(draw.random(N) < share, np.nan, column)
    run.keep(draw.random(N) >= share)
    return run


def clock_jump(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """The wall clock is set while the monotonic one goes on."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    run.wall_jump_s = np.zeros(N)
    for start in draw.integers(0, N, 4):
        run.wall_jump_s[start:] += draw.uniform(-86_400, 86_400)
    assert WALL_AT_START > 4 * 86_400
    return run


def laptop_sleep(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Nights in which nothing is sampled; the monotonic clock goes on in some of them, and stands still in others."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    rows = np.ones(N, dtype=bool)
    asleep = np.zeros(N)
    for start in draw.integers(0, N, draw.integers(1, 5)):
        length = int(draw.integers(10, 600))
        rows[start : start + length] = False
        asleep[start + length :] += length * STEP_S
    if draw.random() < 0.5:
        run.wall_jump_s = asleep
        run.keep(rows)
        run.at = np.arange(len(run.at), dtype=np.float64) * STEP_S
    else:
        run.keep(rows)
    return run


HEALTHY: dict[str, Make] = {
    make.__name__: make
    for make in (
        flat,
        daily_cycle,
        bursts,
        new_plateau,
        sawtooth,
        high_water_mark,
        cache_warm_up,
        model_swap,
        restarts,
        missing_samples,
        clock_jump,
        laptop_sleep,
    )
}

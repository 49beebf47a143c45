"""A healthy machine under a load: its readings minute by minute, with the noise and the habits that real ones have.

The habits are those that trend tests take for leaks: a pool that keeps its high-water mark, a heap that fills for
hours, buffers that follow the context, other programs that come and go. Sizes are those of Macs with 16 to 128 GB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .run import HOURS, STEP_S, Column, Run

Counts = NDArray[np.int64]

GB = 1e9
MB = 1e6
N = int(HOURS * 3600 / STEP_S)


@dataclass(frozen=True)
class Machine:
    """What stays the same during a run; bytes, and seconds of a decode step by row and by token of context."""

    memory: float
    limit: float
    weights: float
    kv_per_token: float
    prefix_cache: float
    step: float
    step_a_row: float
    step_a_token: float
    tells_clock: bool
    tells_level: bool
    tells_throttles: bool
    tells_swap_owner: bool


def draw_machine(draw: np.random.Generator) -> Machine:
    memory = float(draw.choice([16, 32, 64, 128])) * GB
    limit = 0.75 * memory
    step = draw.uniform(0.01, 0.06)
    heat = int(draw.integers(3))
    return Machine(
        memory=memory,
        limit=limit,
        weights=draw.uniform(0.2, 0.45) * limit,
        kv_per_token=draw.choice([30e3, 60e3, 120e3]) * memory / (64 * GB),
        prefix_cache=draw.uniform(0.03, 0.1) * limit,
        step=step,
        step_a_row=step * draw.uniform(0.05, 0.3),
        step_a_token=step * draw.uniform(0.5e-5, 2e-5),
        tells_clock=heat == 0,
        tells_level=heat == 1,
        tells_throttles=heat == 2,
        tells_swap_owner=bool(draw.integers(2)),
    )


def wander(draw: np.random.Generator, size: int, spread: float, memory_minutes: float) -> Column:
    """An autoregressive series of mean 0 and this spread that forgets within `memory_minutes`."""
    keep = np.exp(-1 / memory_minutes)
    noise = draw.normal(0, spread * np.sqrt(1 - keep * keep), size)
    out = np.empty(size)
    last = draw.normal(0, spread)
    for index, push in enumerate(noise.tolist()):
        last = keep * last + push
        out[index] = last
    return out


def high_water(values: Column, decay_minutes: float) -> Column:
    """The highest value so far, forgotten slowly."""
    keep = np.exp(-1 / decay_minutes)
    out = np.empty_like(values)
    mark = 0.0
    for index, value in enumerate(values.tolist()):
        mark = max(value, mark * keep)
        out[index] = mark
    return out


def flat_load(draw: np.random.Generator) -> Column:
    """Expected requests at once, minute by minute."""
    return np.full(N, draw.uniform(0.3, 4.0))


def daily_load(draw: np.random.Generator) -> Column:
    hours = np.arange(N) * STEP_S / 3600
    peak = draw.uniform(1.0, 6.0)
    day = np.sin((hours - draw.uniform(0, 24)) * 2 * np.pi / 24)
    return np.asarray(peak * np.clip(0.5 + 0.6 * day, 0.02, None))


def any_load(draw: np.random.Generator) -> Column:
    return flat_load(draw) if draw.random() < 0.4 else daily_load(draw)


def healthy(
    kind: str, seed: int, draw: np.random.Generator, machine: Machine, load: Column, *, tokens: Column | None = None
) -> Run:
    """A run of this machine under this load; `tokens` is the mean context of a request."""
    at: Column = np.arange(N, dtype=np.float64) * STEP_S
    hours = at / 3600
    running = np.minimum(draw.poisson(load), 16).astype(float)
    mean_tokens = np.clip(6000 + wander(draw, N, 2500, 60), 300, None) if tokens is None else tokens
    context = running * mean_tokens
    most_kv = 0.2 * machine.limit
    context = np.minimum(context, most_kv / machine.kv_per_token)
    warm = machine.prefix_cache * (1 - np.exp(-np.cumsum(load) / draw.uniform(100, 2000)))
    warm = warm * (1 + wander(draw, N, 0.02, 30))
    kv = context * machine.kv_per_token + warm
    rest = draw.uniform(50, 300) * MB + draw.uniform(5, 40) * MB * running + draw.uniform(200, 2000) * context
    rest = rest + 0.01 * warm + np.abs(wander(draw, N, draw.uniform(5, 40) * MB, draw.uniform(2, 40)))
    rest = np.where(draw.random(N) < 0.005, rest + draw.uniform(0.1, 0.8) * GB, rest)
    rest = rest * min(machine.memory / (32 * GB), 1.0)  # on a small machine people run small models
    active = machine.weights + kv + rest
    pool = np.minimum(high_water(0.3 * kv + rest, draw.uniform(60, 2000)), draw.uniform(0.3, 1.0) * GB)
    heap = draw.uniform(0.3, 0.8) * GB + draw.uniform(20, 200) * MB * (1 - np.exp(-hours / draw.uniform(1, 10)))
    heap = heap + np.abs(wander(draw, N, 15 * MB, 20)) + 2 * MB * running
    footprint = active + pool + heap
    others = draw.uniform(0.06, 0.12) * machine.memory * (1 + 0.2 * np.sin(hours * 2 * np.pi / 24))
    others = np.clip(others + wander(draw, N, 0.01 * machine.memory, 120), 0.03 * machine.memory, None)
    available = np.clip(machine.memory - footprint - others, 0.02 * machine.memory, None)
    requests = draw.poisson(load * 2)
    return Run(
        kind=kind,
        seed=seed,
        at=at,
        engine={
            "epoch": np.ones(N),
            "pid": np.full(N, 4711.0),
            "running": running,
            "waiting": np.zeros(N),
            "steps_total": np.cumsum(np.where(running > 0, STEP_S / machine.step, 0)),
            "active_bytes": active,
            "cache_bytes": pool,
            "weights_bytes": np.full(N, machine.weights),
            "kv_bytes": kv,
            "prefix_cache_bytes": warm,
            "footprint_bytes": footprint,
            "limit_bytes": np.full(N, machine.limit),
            "requests_total": np.cumsum(requests).astype(float),
            **_speed(draw, machine, running, context),
            "context_tokens": context,
            "resources": 20_000 + 300 * running,
            "resources_limit": np.full(N, 499_000.0),
            "fds": 40 + running,
            "fds_limit": np.full(N, 256.0),
        },
        host=_host(draw, machine, available, running),
        service=_service(draw, requests, running),
    )


def _speed(draw: np.random.Generator, machine: Machine, running: Column, context: Column) -> dict[str, Column]:
    seconds = machine.step + machine.step_a_row * running + machine.step_a_token * context
    seconds = seconds * np.exp(draw.normal(0, 0.04, N) + wander(draw, N, 0.03, 60))
    busy = running > 0
    batch = np.where(busy, running, np.nan)
    return {"batch": batch, "decode_tokens_per_s": np.where(busy, running / seconds, np.nan)}


def _host(draw: np.random.Generator, machine: Machine, available: Column, running: Column) -> dict[str, Column]:
    none = np.full(N, np.nan)
    # Now and then the system puts idle pages away, at once.
    bursts = np.where(draw.random(N) < 0.001, draw.uniform(20, 600, N) * MB, 0)
    used = draw.uniform(0, 2) * GB + np.cumsum(bursts)
    busy_clock = np.clip(draw.uniform(0.75, 0.98) + draw.normal(0, 0.02, N), 0, 1)
    brief = draw.random(N) < 0.002
    return {
        "memory_bytes": np.full(N, machine.memory),
        "available_bytes": available,
        "swap_bytes": np.full(N, 32 * GB),
        "swap_used_bytes": used,
        "swap_others_bytes": 0.9 * used if machine.tells_swap_owner else none,
        "swap_out_bytes_total": np.cumsum(bursts),
        "swap_in_bytes_total": 0.3 * np.cumsum(bursts),
        "thermal_level": np.where(brief, 1.0, 0.0) if machine.tells_level else none,
        "throttles_total": np.cumsum(np.where(brief, 1.0, 0.0)) if machine.tells_throttles else none,
        "clock_ratio": np.where(running > 0, busy_clock, 0.3) if machine.tells_clock else none,
        "disk_bytes": np.full(N, 1000 * GB),
        "disk_free_bytes": 400 * GB - np.cumsum(draw.uniform(0, 20 * MB, N)),
    }


def _service(draw: np.random.Generator, requests: Counts, running: Column) -> dict[str, Column]:
    return {
        "pid": np.full(N, 4712.0),
        "requests_total": np.cumsum(requests).astype(float),
        "errors_total": np.cumsum(draw.binomial(requests, 0.001)).astype(float),
        "loop_lag_s": np.abs(draw.normal(0, 0.002, N)),
        "fds": 60 + 3 * running,
        "fds_limit": np.full(N, 256.0),
        "canary_s": np.clip(draw.lognormal(-1, 0.5, N), 0.05, 60),
    }

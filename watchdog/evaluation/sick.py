"""Sick runs: what goes wrong at a random moment, and when it must have been found."""

from __future__ import annotations

import numpy as np

from ..verdicts import DetectorName
from .healthy import Make
from .machine import GB, MB, Machine, N, any_load, draw_machine, healthy, wander
from .run import STEP_S, Column, Run, Truth

FOUND_WITHIN_S = 300.0
EARLY = 2 / 3
"""A leak must be found with a third of the time to exhaustion left."""
END_S = N * STEP_S


def _start(draw: np.random.Generator, first_hour: float = 2, last_hour: float = 60) -> tuple[float, Column]:
    """The onset in seconds, and the hours since then, 0 before."""
    onset_s = draw.uniform(first_hour, last_hour) * 3600
    return onset_s, np.clip((np.arange(N) * STEP_S - onset_s) / 3600, 0, None)


def _rate(draw: np.random.Generator) -> float:
    """Bytes an hour, from 5 MB to 2 GB, each order of magnitude alike."""
    return float(np.exp(draw.uniform(np.log(5 * MB), np.log(2 * GB))))


def _leaking(run: Run, leaked: Column, onset_s: float, names: tuple[str, ...]) -> Run:
    """Add the leak, end the run when memory is exhausted, and say until when the leak must be found.

    The memory is exhausted when the most that the healthy run would take and the leak together reach a limit.
    """
    room = _room(run, names)
    for name in names:
        run.engine[name] += leaked
    run.host["available_bytes"] = np.clip(run.host["available_bytes"] - leaked, 0, None)
    # Beyond the run's end it is taken to go on as it did since the onset.
    pace = leaked[-1] / (END_S - onset_s)
    reached = np.flatnonzero(leaked >= room)
    lasts_s = reached[0] * STEP_S - onset_s if len(reached) else room / pace
    deadline_s = onset_s + EARLY * lasts_s
    required = lasts_s <= END_S and deadline_s <= END_S
    run.truth = Truth(DetectorName.LEAK, onset_s, onset_s, deadline_s if required else None)
    run.until(min(onset_s + lasts_s, END_S))
    return run


def _room(run: Run, names: tuple[str, ...]) -> float:
    """What is left at the worst moment of the healthy run."""
    of_machine = float(np.min(run.host["available_bytes"] + run.engine["cache_bytes"]))
    of_limit = float(np.min(run.engine["limit_bytes"] - run.engine["active_bytes"]))
    return min(of_machine, of_limit) if "active_bytes" in names else of_machine


def leak(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Arrays that nobody gives back, at a steady rate under any load."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    onset_s, hours = _start(draw)
    return _leaking(run, _rate(draw) * hours, onset_s, ("active_bytes", "footprint_bytes"))


def leak_to_exhaustion(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """A steady leak that takes all memory within the run, in two hours or in two days."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    names = ("active_bytes", "footprint_bytes") if draw.random() < 0.7 else ("footprint_bytes",)
    lasts = float(np.exp(draw.uniform(np.log(2), np.log(50))))
    onset_s, hours = _start(draw, last_hour=70 - lasts)
    return _leaking(run, _room(run, names) / lasts * hours, onset_s, names)


def leak_per_request(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """A little with each request, more with some than with others, so it is as fast as the load is high."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    onset_s, hours = _start(draw)
    since = np.where(hours > 0, np.diff(run.service["requests_total"], prepend=0), 0)
    leaked = np.cumsum(draw.gamma(np.maximum(since, 1e-9)))
    leaked = leaked * _rate(draw) * max(float(hours[-1]), 1) / max(float(leaked[-1]), 1)
    return _leaking(run, leaked, onset_s, ("active_bytes", "footprint_bytes"))


def leak_outside_mlx(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """The process's own heap."""
    run = healthy(kind, seed, draw, draw_machine(draw), any_load(draw))
    onset_s, hours = _start(draw)
    return _leaking(run, _rate(draw) * hours, onset_s, ("footprint_bytes",))


def fragmentation(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """A pool that grows to several times the live set."""
    machine = draw_machine(draw)
    run = healthy(kind, seed, draw, machine, any_load(draw))
    onset_s, hours = _start(draw)
    live = run.engine["active_bytes"] - run.engine["weights_bytes"]
    room = 0.85 * (machine.limit - run.engine["active_bytes"])
    most = np.minimum(draw.uniform(2.5, 4) * live, room)
    grown = np.clip(most - run.engine["cache_bytes"], 0, None) * (1 - np.exp(-hours / draw.uniform(0.5, 6)))
    run.engine["cache_bytes"] += grown
    run.engine["footprint_bytes"] += grown
    run.host["available_bytes"] = np.clip(run.host["available_bytes"] - grown, 0.05 * machine.memory, None)
    run.truth = Truth(DetectorName.FRAGMENTATION, onset_s, onset_s)
    return run


def _swapping(run: Run, draw: np.random.Generator, others: bool) -> Run:
    onset_s, hours = _start(draw)
    rate = np.exp(draw.uniform(np.log(40), np.log(2000))) * MB * 60
    pushes = np.diff(hours, prepend=0) * rate * np.exp(draw.normal(0, 0.2, N))
    grown = np.minimum(np.cumsum(pushes), 24 * GB)
    run.host["swap_used_bytes"] += grown
    run.host["swap_out_bytes_total"] += grown
    run.host["swap_others_bytes"] += 0.9 * grown if others else 0.1 * grown
    run.truth = Truth(DetectorName.SWAP, onset_s, onset_s, onset_s + FOUND_WITHIN_S)
    run.until(onset_s + 1800)
    return run


def swap_ours(kind: str, seed: int, draw: np.random.Generator) -> Run:
    return _swapping(healthy(kind, seed, draw, draw_machine(draw), any_load(draw)), draw, others=False)


def swap_others(kind: str, seed: int, draw: np.random.Generator) -> Run:
    return _swapping(healthy(kind, seed, draw, draw_machine(draw), any_load(draw)), draw, others=True)


def _throttling(run: Run, machine: Machine, slower: Column, onset_s: float, draw: np.random.Generator) -> Run:
    """`slower` is the factor on every step; the machine tells of it as machines do."""
    heavy = slower >= 1.35
    if machine.tells_level:
        run.host["thermal_level"] = np.where(heavy, 2.0 + (slower > 2), np.where(slower > 1.1, 1.0, 0.0))
    if machine.tells_throttles:
        run.host["throttles_total"] += np.cumsum(np.where(heavy, draw.integers(4, 60, N), 0))
    if machine.tells_clock:
        run.host["clock_ratio"] /= slower
    run.engine["decode_tokens_per_s"] /= slower
    began_s = float(run.at[np.argmax(slower > 1)])
    run.truth = Truth(DetectorName.THERMAL, began_s, onset_s, onset_s + FOUND_WITHIN_S)
    run.until(onset_s + 1800)
    return run


def _always_some_load(draw: np.random.Generator) -> Column:
    return np.asarray(any_load(draw) + 3.0)


def throttling_sudden(kind: str, seed: int, draw: np.random.Generator) -> Run:
    machine = draw_machine(draw)
    run = healthy(kind, seed, draw, machine, _always_some_load(draw))
    onset_s, hours = _start(draw)
    return _throttling(run, machine, np.where(hours > 0, draw.uniform(1.4, 3), 1.0), onset_s, draw)


def throttling_gradual(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Slower over an hour or more; it counts from when steps take 1.35 times as long."""
    machine = draw_machine(draw)
    run = healthy(kind, seed, draw, machine, _always_some_load(draw))
    _, hours = _start(draw)
    most = draw.uniform(1.5, 3)
    slower = 1 + (most - 1) * np.clip(hours / draw.uniform(0.5, 4), 0, 1)
    onset_s = float(run.at[np.argmax(slower >= 1.35)])
    return _throttling(run, machine, slower, onset_s, draw)


def slowdown(kind: str, seed: int, draw: np.random.Generator) -> Run:
    """Decoding gets slower and nothing says why; at once or over hours."""
    run = healthy(kind, seed, draw, draw_machine(draw), _always_some_load(draw))
    onset_s, hours = _start(draw, first_hour=4)
    slower = 1 + draw.uniform(0.5, 2) * np.clip(hours / draw.uniform(0.02, 4), 0, 1) * (1 + wander(draw, N, 0.02, 30))
    run.engine["decode_tokens_per_s"] /= slower
    run.truth = Truth(DetectorName.SLOWDOWN, onset_s, onset_s, onset_s + 6 * 3600)
    run.until(onset_s + 8 * 3600)
    return run


SICK: dict[str, Make] = {
    make.__name__: make
    for make in (
        leak,
        leak_to_exhaustion,
        leak_per_request,
        leak_outside_mlx,
        fragmentation,
        swap_ours,
        swap_others,
        throttling_sudden,
        throttling_gradual,
        slowdown,
    )
}

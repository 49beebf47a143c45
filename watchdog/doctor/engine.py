"""The engine as the watchdog sees it: its state and deaths, its last step, its queue, its memory and its cache (pure).

What is read is the tree's own status, so there is nothing else to ask.
"""

from __future__ import annotations

from functools import partial

from ...engine.protocol import Heartbeat, MissReason
from ..status import EngineStatus, LastRestart
from ..supervisor import State
from .deaths import FORGOTTEN, recent, told
from .findings import START_AGAIN, WAIT, Finding, Layer, Level

_finding = partial(Finding, Layer.ENGINE)

STALE_STEP_S = 10.0
MEMORY_SHARE = 0.9
FEW_HITS = 0.2
ENOUGH_LOOKUPS = 20
"""Fewer requests say nothing about a cache."""

_MISS_REMEDIES = {
    MissReason.DIVERGED: f"prompts change at their beginning: switch on the rules of `[server.canonical]` and "
    f"{START_AGAIN}; the response header x-stoker-cache names the message where they part",
    MissReason.EVICTED: f"raise `engine.prefix_cache_ram_bytes` or `engine.prefix_cache_disk_bytes` and {START_AGAIN}",
    MissReason.NOT_TRIMMABLE: "this model's state can only be taken up at a snapshot; longer common prompts help",
    MissReason.VERSION: "the cache was filled by another version or model; it fills again by itself",
}


def judge_engine(engine: EngineStatus) -> list[Finding]:
    """One engine, wherever it is in its life."""
    findings = [_judge_state(engine)]
    if engine.last_restart is not None:
        findings.append(_judge_deaths(engine.restarts, engine.last_restart))
    if engine.heartbeat is not None:
        findings += [_judge_step(engine.heartbeat), _judge_memory(engine.heartbeat), _judge_cache(engine.heartbeat)]
    return findings


def _judge_state(engine: EngineStatus) -> Finding:
    measured = f"{engine.model}: {engine.state}"
    if engine.state is State.READY:
        return _finding("state", Level.OK, f"{measured}, pid {engine.pid}, epoch {engine.epoch}")
    if engine.state in (State.CIRCUIT_OPEN, State.FAILED):
        said = engine.last_restart.log_tail[-1:] if engine.last_restart else ()
        measured = f"{measured}: {engine.failure or 'it stays away'}{''.join(f' (last line: {line})' for line in said)}"
        return _finding("state", Level.FAILURE, measured, "mend what it says, then `stoker engine restart`")
    return _finding("state", Level.WARNING, measured, WAIT)


def _judge_deaths(restarts: int, last: LastRestart) -> Finding:
    measured = told(restarts, last)
    if not recent(last):
        return _finding("restarts", Level.OK, measured)
    remedy = "`stoker status --json` shows what it said last"
    if "SIGKILL" in last.reason:
        remedy = "if nobody killed it, the kernel did, for memory: see the hardware layer and the kernel's log"
    elif "step" in last.reason or "heartbeat" in last.reason:
        remedy = "it hung; `logs/stoker.log` under $STOKER_HOME holds what every thread was doing then"
    return _finding("restarts", Level.WARNING, measured, f"{remedy}; {FORGOTTEN}")


def _judge_step(heartbeat: Heartbeat) -> Finding:
    pending = heartbeat.running + heartbeat.waiting
    if heartbeat.last_step_age is None:
        return _finding("last step", Level.WARNING, "the model is loading", WAIT)
    measured = f"{heartbeat.last_step_age:.1f} s ago, {heartbeat.running} running, {heartbeat.waiting} waiting"
    if pending and heartbeat.last_step_age > STALE_STEP_S:
        remedy = "the watchdog replaces it unless its work explains that; to hasten it: `stoker engine restart`"
        return _finding("last step", Level.FAILURE, measured, remedy)
    return _finding("last step", Level.OK, measured)


def _judge_memory(heartbeat: Heartbeat) -> Finding:
    memory = heartbeat.memory
    held = max(memory.footprint or 0, (memory.active or 0) + (memory.cache or 0))
    measured = (
        f"{held / 1e9:.1f} GB, of it weights {_gb(memory.weights)}, KV {_gb(memory.kv)}, pool {_gb(memory.cache)}"
    )
    if memory.limit is not None and held > MEMORY_SHARE * memory.limit:
        remedy = (
            "lower `engine.kv_budget_bytes` or `engine.prefix_cache_ram_bytes`, "
            f"or set `engine.model` to a smaller model; then {START_AGAIN}"
        )
        return _finding("memory", Level.WARNING, f"{measured}, of {memory.limit / 1e9:.1f} GB", remedy)
    return _finding("memory", Level.OK, measured)


def _judge_cache(heartbeat: Heartbeat) -> Finding:
    use = heartbeat.prefix_cache
    hit = sum(use.hit_tokens.values())
    if use.lookups < ENOUGH_LOOKUPS:
        return _finding("prefix cache", Level.OK, f"{use.lookups} requests so far")
    share = hit / max(1, hit + use.missed_tokens)
    reasons = sorted(use.misses.items(), key=lambda miss: -miss[1])
    measured = f"{share:.0%} of prompt tokens were cached; misses: " + ", ".join(f"{why} {n}" for why, n in reasons)
    remedies = [_MISS_REMEDIES[why] for why, _ in reasons if why in _MISS_REMEDIES]
    if share < FEW_HITS and remedies:
        return _finding("prefix cache", Level.WARNING, measured, remedies[0])
    return _finding("prefix cache", Level.OK, measured)


def _gb(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e9:.1f} GB"

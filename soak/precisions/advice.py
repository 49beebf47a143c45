"""Which precision to take on this machine. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_DIVERGENCE = 0.1
"""Nats. Below it, people do not tell answers of the two apart; common 4-bit quantizations of large models are at 0.02
to 0.1, small models lose more."""
EQUAL_SPEED = 0.95
"""Of the fastest: what is as fast as that is chosen by memory."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One precision, as measured."""

    name: str
    divergence: float
    throughput: float | None
    memory_bytes: float | None


def recommend(tried: Sequence[Tried]) -> tuple[str, str]:
    """The name, and why, for a person."""
    good = [each for each in tried if each.divergence <= MOST_DIVERGENCE] or [min(tried, key=lambda e: e.divergence)]
    fastest = max(each.throughput or 0.0 for each in good)
    equal = [each for each in good if (each.throughput or 0.0) >= EQUAL_SPEED * fastest]
    best = min(equal, key=lambda each: each.memory_bytes or float("inf"))
    lost = [each.name for each in tried if each not in good]
    why = "the fastest here" if len(equal) == 1 else "as fast as any here, and takes the least memory of those"
    costs = f", and {', '.join(lost)} lose more than {MOST_DIVERGENCE} nats" if lost else ""
    return best.name, f"Take {best.name} on this machine: it is {why}{costs}."

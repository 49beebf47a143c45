"""When conversations begin: as soon as there is a place, at random, or many at once. Seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Closed:
    """So many at once, each followed by another as soon as it ends: shows what a server can do, not how it queues."""

    streams: int

    def times(self, seed: int) -> Iterator[None]:
        """None for each: when there is a place."""
        while True:
            yield None


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent users: the time to the next one is exponentially distributed."""

    per_s: float
    streams = None

    def times(self, seed: int) -> Iterator[float]:
        """Seconds of the run."""
        draw, at = random.Random(seed), 0.0
        while True:
            at += draw.expovariate(self.per_s)
            yield at


@dataclass(frozen=True, slots=True)
class Bursts:
    """So many at the same moment, then none for a while."""

    size: int
    every_s: float
    streams = None

    def times(self, seed: int) -> Iterator[float]:
        """Seconds of the run."""
        at = 0.0
        while True:
            yield from [at] * self.size
            at += self.every_s


Arrivals = Closed | Poisson | Bursts

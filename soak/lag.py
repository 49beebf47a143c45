"""What the load client adds to the times that it reports: how late its own event loop runs. Said with every report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

PROBE_S = 0.01
BOTTLENECK_S = 0.01
"""An event loop that is this late at p99 is seen in the figures."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Seconds at p50, p99 and worst by which the client was late to see what had arrived, or to send what was due."""

    p50_s: float = 0.0
    p99_s: float = 0.0
    worst_s: float = 0.0

    @property
    def bottleneck(self) -> bool:
        """The figures are the client's as much as the server's."""
        return self.p99_s > BOTTLENECK_S

    def sentence(self) -> str:
        """For a person, under the figures."""
        said = f"the load client was late by {self.p50_s * 1000:.1f} ms (p50) and {self.p99_s * 1000:.1f} ms (p99)"
        if not self.bottleneck:
            return f"{said}: it did not limit what was measured"
        return f"{said}: IT WAS THE BOTTLENECK; use fewer streams, or run it on a machine of its own"


class Probe:
    """Wakes every few milliseconds, and writes down by how much too late. An event that arrives waits as long."""

    def __init__(self) -> None:
        self._late: list[float] = []

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PROBE_S
            await asyncio.sleep(PROBE_S)
            self._late.append(max(0.0, loop.time() - due))
            if len(self._late) == _KEPT:
                # A run of days keeps the newest half: what the client adds now is what matters.
                del self._late[: _KEPT // 2]

    def lag(self) -> Lag:
        """Of what was seen so far."""
        return lag_of(self._late)


_KEPT = 1_000_000


def lag_of(late: Iterable[float]) -> Lag:
    """From single delays in seconds."""
    values = np.fromiter(late, dtype=float)
    if values.size == 0:
        return Lag()
    p50, p99 = np.percentile(values, [50, 99])
    return Lag(float(p50), float(p99), float(values.max()))

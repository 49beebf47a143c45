"""How the service itself does: how late its event loop runs, and how many of its answers were failures."""

from __future__ import annotations

import asyncio
import time

BEAT_S = 0.25
REFUSALS = frozenset({503, 529})
"""Of the codes from 500 on, those that turn a request away for want of room; they are no failures."""


class Vitals:
    """Counted by the middleware, told to the watchdog. Run `run` as a task."""

    def __init__(self) -> None:
        self._requests = 0
        self._errors = 0
        self._lag_s = 0.0

    def answered(self, status: int) -> None:
        """A request ended with this status, or its stream broke with it."""
        self._requests += 1
        self._errors += status >= 500 and status not in REFUSALS

    def told(self) -> dict[str, float]:
        """`loop_lag_s` is the most since it was asked last."""
        lag_s, self._lag_s = self._lag_s, 0.0
        return {"loop_lag_s": lag_s, "requests_total": self._requests, "errors_total": self._errors}

    async def run(self) -> None:
        """Measure; ends only by cancellation."""
        while True:
            due = time.monotonic() + BEAT_S
            await asyncio.sleep(BEAT_S)
            self._lag_s = max(self._lag_s, time.monotonic() - due)

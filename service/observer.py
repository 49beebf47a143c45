"""What can be measured of a request, and who is told: from its arrival over its tokens and its engines to its end."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from ..engine.protocol import Timings
from .entry import Entry


class Resume(StrEnum):
    """What came of a request whose engine died."""

    RESUMED = "resumed"
    EXPIRED = "expired"
    ABANDONED = "abandoned"
    QUARANTINED = "quarantined"


class Observer(Protocol):
    """Who is told."""

    def first_tokens(self, count: int, since_arrival_s: float) -> None: ...

    def more_tokens(self, count: int, since_last_s: float) -> None: ...

    def timed(self, timings: Timings, cached_tokens: int) -> None: ...

    def ended(self, duration_s: float, per_token_s: float | None) -> None: ...

    def cancelled(self) -> None: ...

    def resumed(self, outcome: Resume, gap_s: float) -> None: ...


class Stopwatch:
    """Takes the times of entries and reports them."""

    def __init__(self, observer: Observer, clock: Callable[[], float]) -> None:
        self._observer = observer
        self._clock = clock

    def tokens(self, entry: Entry, count: int) -> None:
        """New tokens of it came."""
        now = self._clock()
        self.continued(entry)
        if entry.first_token_at is None:
            entry.first_token_at = now
            self._observer.first_tokens(count, now - entry.order.arrived_at)
        else:
            self._observer.more_tokens(count, now - entry.last_token_at)
        entry.last_token_at = now

    def continued(self, entry: Entry) -> None:
        """It has something new to say, so what its engine's death interrupted goes on."""
        self._resumed(entry, Resume.RESUMED)

    def ended(self, entry: Entry, outcome: Resume) -> None:
        """`outcome` is what came of a resume, if one was still under way."""
        self._resumed(entry, outcome)
        self._observer.ended(self._clock() - entry.order.arrived_at, entry.time_per_output_token())

    def _resumed(self, entry: Entry, outcome: Resume) -> None:
        if entry.lost_at is not None:
            gap_s = self._clock() - entry.lost_at
            entry.lost_at = None
            self._observer.resumed(outcome, gap_s)

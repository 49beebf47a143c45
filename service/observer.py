"""What can be measured of a request, and who is told: from its arrival over its tokens and its engines to its end."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from ..engine.protocol import Finished, FinishReason, Heartbeat, Prefill, Timings
from .entry import Entry
from .errors import ServiceError

CANCELLED = "cancelled"
"""What a trail calls the error of a request whose client left."""


class Resume(StrEnum):
    """What came of a request whose engine died."""

    RESUMED = "resumed"
    EXPIRED = "expired"
    ABANDONED = "abandoned"
    QUARANTINED = "quarantined"


class Observer(Protocol):
    """Who is told."""

    def first_tokens(self, entry: Entry, count: int, since_arrival_s: float) -> None: ...

    def more_tokens(self, entry: Entry, count: int, since_last_s: float) -> None: ...

    def timed(self, entry: Entry, timings: Timings) -> None: ...

    def ended(self, entry: Entry, duration_s: float) -> None: ...

    def cancelled(self) -> None: ...

    def resumed(self, entry: Entry, outcome: Resume, gap_s: float) -> None: ...

    def heartbeat(self, heartbeat: Heartbeat) -> None: ...


class Stopwatch:
    """Takes the times of entries, writes them into their trails and reports them."""

    def __init__(self, observer: Observer, clock: Callable[[], float]) -> None:
        self._observer = observer
        self._clock = clock

    def taken(self, entry: Entry) -> None:
        """It is in the ledger from now on."""
        entry.trail.began_at = self._clock()

    def handed_over(self, entry: Entry, epoch: int) -> None:
        """To the engine of that incarnation."""
        entry.trail.handed_over(epoch, self._clock())

    def prefilled(self, entry: Entry, event: Prefill) -> None:
        """The engine has got so far with its prompt."""
        if entry.trail.attempt is not None:
            entry.trail.attempt.prefilled(event, self._clock())

    def tokens(self, entry: Entry, count: int) -> None:
        """New tokens of it came."""
        now = self._clock()
        self.continued(entry)
        entry.trail.tokens(count, now)
        if entry.first_token_at is None:
            entry.first_token_at = now
            self._observer.first_tokens(entry, count, now - entry.order.arrived_at)
        else:
            self._observer.more_tokens(entry, count, now - entry.last_token_at)
        entry.last_token_at = now

    def continued(self, entry: Entry) -> None:
        """It has something new to say, so what its engine's death interrupted goes on."""
        self._resumed(entry, Resume.RESUMED)

    def finished(self, entry: Entry, event: Finished) -> None:
        """The engine has said its last word about it."""
        self.continued(entry)
        entry.trail.finish = event.reason
        if entry.trail.attempt is not None:
            entry.trail.attempt.timings = event.timings
        self._observer.timed(entry, event.timings)

    def stopped(self, entry: Entry) -> None:
        """Its owner has all it wants."""
        entry.trail.finish = FinishReason.STOP

    def cancelled(self, entry: Entry) -> None:
        """Its client is gone."""
        entry.trail.finish, entry.trail.error = FinishReason.CANCELLED, CANCELLED
        self._observer.cancelled()

    def failed(self, entry: Entry, error: ServiceError) -> None:
        """It ends without being complete."""
        entry.trail.error = error.code

    def ended(self, entry: Entry, outcome: Resume) -> None:
        """`outcome` is what came of a resume, if one was still under way."""
        now = self._clock()
        self._resumed(entry, outcome)
        entry.trail.ended_at = now
        self._observer.ended(entry, now - entry.order.arrived_at)

    def _resumed(self, entry: Entry, outcome: Resume) -> None:
        if entry.lost_at is not None:
            gap_s = self._clock() - entry.lost_at
            entry.lost_at = None
            self._observer.resumed(entry, outcome, gap_s)

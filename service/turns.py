"""Whose turn it is to go to the engine, and whether it has a place: the fair queue behind those whose engine died.

Pure, but for what it remembers of who waits and who is under suspicion.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..engine.protocol import Limits
from .fairness import FairQueue
from .quarantine import Quarantine

LOOKAHEAD = 2
"""Requests that wait inside the engine, so that a freed row is filled with the next step and not after a round trip."""


class Turns:
    """`queue` holds those who have never been handed over, `quarantine` the cases of those who have."""

    def __init__(self) -> None:
        self.queue = FairQueue()
        self.quarantine = Quarantine()
        self.limits: Limits | None = None
        """Those of the last engine that was ready."""

    @property
    def places(self) -> int:
        """How many the engine gets at once: what it computes, and little more, so that order is decided here."""
        return 0 if self.limits is None else self.limits.max_running + min(LOOKAHEAD, self.limits.max_waiting)

    def next(self, suspended: Iterable[str], in_engine: int) -> str | None:
        """Who goes next, taken out of the queue if it was there; None when nobody may.

        `suspended` are those whose engine died, oldest first; `in_engine` is how many the engine has.
        """
        if in_engine >= self.places:
            return None
        for request_id in suspended:
            if self.quarantine.may_go(request_id):
                return request_id if self._is_computed_at_once(request_id, in_engine) else None
        return None if self.quarantine.trying else self.queue.pop()

    def _is_computed_at_once(self, request_id: str, in_engine: int) -> bool:
        """A suspect must not wait inside the engine, where it would be blamed for others; they wait for its row."""
        assert self.limits is not None, "there are places, so there are limits"
        return in_engine < self.limits.max_running or not self.quarantine.suspects(request_id)

"""Who drafts for the rows of a batch, and when: between the batch and `speculative`, no MLX.

Drafting has a price beyond its tokens: a draft needs the row's newest token, so the step before must be read before
the next is launched, and the device waits meanwhile. So after each step it is asked once, with what is known by then,
whether any row has a draft that pays; only then is the next step read first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .speculative import MAX_DRAFT, Controller, Offer, PromptLookup, Proposer, StepMeasure, Verdict


@dataclass(slots=True)
class _Drafter:
    proposer: Proposer
    planned: int = 0


class Drafting:
    """One proposer a row, and the controller over all of them."""

    def __init__(self, enabled: bool, clock: Callable[[], float]) -> None:
        self._enabled = enabled
        self._clock = clock
        self._controller = Controller()
        self._drafters: dict[str, _Drafter] = {}
        self._read_at = clock()
        self.allowed = True
        """Off, nothing is drafted for now; rows are still followed, so that it can go on at any time."""

    @property
    def wants_to_draft(self) -> bool:
        """Whether the plan made after the last step gives any row a draft."""
        return self.allowed and any(drafter.planned for drafter in self._drafters.values())

    def add(self, row_id: str, tokens: Sequence[int]) -> None:
        """A row with its sequence so far."""
        if self._enabled:
            self._drafters[row_id] = _Drafter(PromptLookup())
            self._drafters[row_id].proposer.extend(tokens)

    def extend(self, row_id: str, tokens: Sequence[int]) -> None:
        """The row drew these tokens."""
        if self._enabled:
            self._drafters[row_id].proposer.extend(tokens)

    def remove(self, row_id: str) -> None:
        """The row has left."""
        if self._drafters.pop(row_id, None) is not None:
            self._controller.forget(row_id)

    def draft(self, row_id: str, limit: int) -> list[int]:
        """What the row's proposer offers now, as long as planned and no longer than `limit`."""
        drafter = self._drafters[row_id]
        length = min(drafter.planned, limit)
        return drafter.proposer.propose(length) if length > 0 else []

    def observe(self, verdicts: Sequence[tuple[str, int, int]]) -> None:
        """A step in which every row decoded was read: (row, drafted, accepted) of each. Plans the next drafts."""
        seconds = self._lap()
        if not self._enabled:
            return
        self._controller.observe(StepMeasure([Verdict(*verdict) for verdict in verdicts], seconds))
        self._plan([row_id for row_id, _, _ in verdicts])

    def skip(self) -> None:
        """A step was read that also computed pieces of prompts: it tells nothing about drafts."""
        self._lap()
        for drafter in self._drafters.values():
            drafter.planned = 0

    def _plan(self, row_ids: Sequence[str]) -> None:
        for drafter in self._drafters.values():
            drafter.planned = 0
        decoding = [row_id for row_id in row_ids if row_id in self._drafters]
        offers = [Offer(row_id, len(self._drafters[row_id].proposer.propose(MAX_DRAFT))) for row_id in decoding]
        for row_id, length in zip(decoding, self._controller.plan(offers), strict=True):
            self._drafters[row_id].planned = length

    def _lap(self) -> float:
        """Seconds since the step before was read."""
        now = self._clock()
        seconds, self._read_at = now - self._read_at, now
        return seconds

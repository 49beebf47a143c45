"""Who drafts for the rows of a batch, and when: between the batch and `speculative`, no MLX.

Drafting has a price beyond its tokens: a draft needs the row's newest token, so the step before must be read before
the next is launched, and the device waits meanwhile. So after each step it is asked once, with what is known by then,
whether any row has a draft that pays; only then is the next step read first.

What a grammar leaves no choice about comes first, then what the row's own text suggests, then the draft model, if
there is one: each costs more than the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from .draft_controller import Controller
from .protocol import DraftMethod, Sampling
from .speculative import (
    MAX_DRAFT,
    BatchProposer,
    Draft,
    Offer,
    PromptLookup,
    Proposer,
    StepMeasure,
    Verdict,
)

MAX_MODEL_DRAFT = 8
"""Passes of a draft model before a step: each takes its time, and the last tokens of a long draft seldom stand."""


@dataclass(slots=True)
class _Drafter:
    proposers: dict[DraftMethod, Proposer]
    planned: int = 0
    method: DraftMethod = DraftMethod.PROMPT_LOOKUP


class Drafting:
    """The proposers of every row, and the controller over all of them. `model` guesses for all rows at once."""

    def __init__(self, enabled: bool, clock: Callable[[], float], model: BatchProposer | None = None) -> None:
        self._enabled = enabled
        self._clock = clock
        self._model = model if enabled else None
        self._controller = Controller()
        self._drafters: dict[str, _Drafter] = {}
        self._read_at = clock()
        self.allowed = True
        """Off, nothing is drafted for now; rows are still followed, so that it can go on at any time."""
        self._passes = 0
        self._passes_s = 0.0
        """Of the drafts for the step under way."""

    @property
    def wants_to_draft(self) -> bool:
        """Whether the plan made after the last step gives any row a draft."""
        return self.allowed and any(drafter.planned for drafter in self._drafters.values())

    @property
    def kv_nbytes(self) -> int:
        """KV of the draft model."""
        return self._model.kv_nbytes if self._model is not None else 0

    def add(
        self,
        row_id: str,
        tokens: Sequence[int],
        sampling: Sampling,
        position: int,
        forced: Proposer | None = None,
    ) -> None:
        """A row with its sequence so far, whose next token has this output position.

        `forced` proposes what the row's grammar leaves no choice about.
        """
        if not self._enabled:
            return
        grammar = {DraftMethod.GRAMMAR: forced} if forced is not None else {}
        lookup: dict[DraftMethod, Proposer] = {DraftMethod.PROMPT_LOOKUP: PromptLookup()}
        self._drafters[row_id] = _Drafter({**grammar, **lookup})
        for proposer in self._drafters[row_id].proposers.values():
            proposer.extend(tokens)
        if self._model is not None:
            self._model.add(row_id, tokens, sampling, position)

    def extend(self, row_id: str, tokens: Sequence[int]) -> None:
        """The row drew these tokens."""
        if not self._enabled:
            return
        for proposer in self._drafters[row_id].proposers.values():
            proposer.extend(tokens)
        if self._model is not None:
            self._model.extend(row_id, tokens)

    def remove(self, row_id: str) -> None:
        """The row has left."""
        if self._drafters.pop(row_id, None) is None:
            return
        self._controller.forget(row_id)
        if self._model is not None:
            self._model.remove(row_id)

    def drafts(self, limits: Mapping[str, int]) -> dict[str, Draft]:
        """What is offered now for these rows, as long as planned and no longer than each one's limit."""
        drafts: dict[str, Draft] = {}
        of_model: dict[str, int] = {}
        for row_id, limit in limits.items():
            drafter = self._drafters[row_id]
            length = min(drafter.planned, limit)
            if length > 0 and drafter.method is DraftMethod.DRAFT_MODEL:
                of_model[row_id] = length
            elif length > 0:
                drafts[row_id] = Draft(drafter.proposers[drafter.method].propose(length), drafter.method)
        return drafts | self._drafts_of_model(of_model)

    def observe(self, verdicts: Sequence[Verdict], stacked: Collection[str] = ()) -> None:
        """A step in which every row decoded was read. Plans the next drafts; rows in `stacked` attend together."""
        seconds = max(0.0, self._lap() - self._passes_s)
        if not self._enabled:
            return
        pass_s = self._passes_s / self._passes if self._passes else 0.0
        self._controller.observe(StepMeasure(verdicts, seconds, self._passes, pass_s))
        self._passes, self._passes_s = 0, 0.0
        self._plan([verdict.row for verdict in verdicts], stacked)

    def skip(self) -> None:
        """A step was read that also computed pieces of prompts: it tells nothing about drafts."""
        self._lap()
        self._passes, self._passes_s = 0, 0.0
        for drafter in self._drafters.values():
            drafter.planned = 0

    def _plan(self, row_ids: Sequence[str], stacked: Collection[str]) -> None:
        for drafter in self._drafters.values():
            drafter.planned = 0
        decoding = [row_id for row_id in row_ids if row_id in self._drafters]
        offers = [replace(self._offer(row_id), stacked=row_id in stacked) for row_id in decoding]
        for offer, length in zip(offers, self._controller.plan(offers), strict=True):
            self._drafters[offer.row].planned = length
            self._drafters[offer.row].method = offer.method

    def _offer(self, row_id: str) -> Offer:
        for method, proposer in self._drafters[row_id].proposers.items():
            length = len(proposer.propose(MAX_DRAFT))
            if length and not self._is_outdone(row_id, method):
                return Offer(row_id, length, method)
        if self._model is not None:
            return Offer(row_id, MAX_MODEL_DRAFT, DraftMethod.DRAFT_MODEL)
        return Offer(row_id, 0)

    def _is_outdone(self, row_id: str, method: DraftMethod) -> bool:
        """Whether a draft model guesses so much better that its passes are the better try."""
        chance = self._controller.chance
        return self._model is not None and 2 * chance(row_id, method) < chance(row_id, DraftMethod.DRAFT_MODEL)

    def _drafts_of_model(self, lengths: Mapping[str, int]) -> dict[str, Draft]:
        if self._model is None or not lengths:
            return {}
        began = self._clock()
        proposed = self._model.propose(lengths)
        self._passes = max((len(tokens) for tokens in proposed.values()), default=0)
        self._passes_s = self._clock() - began
        return {row_id: Draft(tokens, DraftMethod.DRAFT_MODEL) for row_id, tokens in proposed.items()}

    def _lap(self) -> float:
        """Seconds since the step before was read."""
        now = self._clock()
        seconds, self._read_at = now - self._read_at, now
        return seconds

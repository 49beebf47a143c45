"""Draft tokens and how many pay: proposers guess what a row says next, and a controller says how far to trust them.

A step verifies each row's draft beside its next token in one forward pass. The target draws every position with that
position's own key and keeps a draft token only where it drew the same one, so speculation changes how fast a request
goes and never what it says. No MLX, no clock: what steps cost and what they accepted is told by the batch.

Wiring, once a step: `extend` each row's proposer with the tokens it got, `propose`, `Controller.plan` what lengths to
keep, run the step, `Controller.observe` it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

MAX_DRAFT = 16
"""Longest draft; longer ones gain nothing that the measured cost of a token leaves over."""

PROBE_SHARE = 0.02
"""Share of the time that drafts may cost which are not expected to pay, but would tell that a text has changed."""

PROBE_TOKENS = 2

_COST_MEMORY_STEPS = 32.0
_COST_ANCHOR = 4.0
"""How many squared tokens of spread in the drafts weigh as much as the slope that was known before."""
_FIRST_SLOPE = 0.07
"""Cost of a draft token as a share of a step before any was measured (CPU, demo model: 4 ms of 56 ms)."""
_LEAST_SLOPE = 0.002
"""A draft token costs at least this share of a step, however noise makes it look."""
_OUTLIER = 3.0
_WARM_UP_STEPS = 8.0

_ROW_MEMORY_TRIALS = 16.0
_SHARED_MEMORY_TRIALS = 256.0
_FIRST_ACCEPTANCE = 0.5
_PRIOR_TRIALS = 2.0


class Proposer(Protocol):
    """Guesses how one row goes on. It only hears of tokens that are final."""

    def extend(self, tokens: Iterable[int]) -> None:
        """These tokens were added to the row's sequence; the first call brings the prompt."""

    def propose(self, limit: int) -> list[int]:
        """Up to `limit` tokens that may come next; none when there is nothing to go by."""


class PromptLookup:
    """What followed the last time the row ended as it ends now (n-gram lookup; Saxena 2023, "prompt lookup decoding").

    The longest of the endings of `max_ngram` down to `min_ngram` tokens that stood there before decides, its latest
    occurrence counts. A copy that reaches the end of the sequence goes on with itself, so that a text in which one
    phrase repeats is drafted to the limit. Each token costs a dictionary entry for each length, about 0.4 kB in all.
    """

    def __init__(self, max_ngram: int = 4, min_ngram: int = 2) -> None:
        self._lengths = range(max_ngram, min_ngram - 1, -1)
        self._tokens: list[int] = []
        self._next: dict[tuple[int, ...], int] = {}
        """Where the token after an n-gram stands. The sequence's own ending is not in here: nothing follows it yet."""

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            end = len(self._tokens)
            for length in self._lengths:
                if length <= end:
                    self._next[tuple(self._tokens[end - length :])] = end
            self._tokens.append(token)

    def propose(self, limit: int) -> list[int]:
        end = len(self._tokens)
        for length in self._lengths:
            start = self._next.get(tuple(self._tokens[end - length :])) if length <= end else None
            if start is not None:
                return [self._tokens[start + i % (end - start)] for i in range(limit)]
        return []


@dataclass(frozen=True, slots=True)
class Offer:
    """A row that decodes in the next step, and how many tokens its proposer has (or could make)."""

    row: str
    length: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one row's draft came to: `accepted` of `drafted` tokens."""

    row: str
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class StepMeasure:
    """A finished step in which every row decoded: its verdicts, one a row, and its wall time.

    Steps that also computed pieces of prompts tell nothing about drafts and are not measured.
    """

    verdicts: Sequence[Verdict]
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the controller believes, for people and metrics."""

    drafted: int
    accepted: int
    acceptance: float
    """Chance that a draft token is accepted, over all rows of late."""
    step_s: dict[int, float]
    """Cost of a step without drafts, by its number of rows."""
    draft_token_s: dict[int, float]
    """What one draft token adds to it, by the number of rows."""


class Controller:
    """Chooses every row's draft length so that the whole batch gains the most tokens a second.

    A draft of k tokens, each accepted with chance p, gives (1 - p^(k+1)) / (1 - p) tokens (Leviathan, Kalman and
    Matias 2023), so its k-th token is worth p^k. A step costs a + b * drafted seconds, fitted for each number of rows.
    Tokens a second are greatest where the next draft token, anywhere in the batch, is worth less than the tokens that
    the batch makes in the time it costs.
    """

    def __init__(self) -> None:
        self._costs: dict[int, _StepCost] = {}
        self._rows: dict[str, _Acceptance] = {}
        self._shared = _Acceptance(_SHARED_MEMORY_TRIALS, _FIRST_ACCEPTANCE)
        self._drafted = 0
        self._accepted = 0
        self._purse_s = 0.0
        """Time that may go into probing; filled by `PROBE_SHARE` of every step."""

    def plan(self, offers: Sequence[Offer]) -> list[int]:
        """How many draft tokens of each offer to verify in the next step."""
        cost = self._costs.get(len(offers))
        if cost is None or not any(offer.length for offer in offers):
            # The first step of a new number of rows is a plain one: drafts are measured against it.
            return [0] * len(offers)
        lengths = self._most_tokens_per_second(offers, cost)
        self._probe(offers, lengths, cost)
        return lengths

    def observe(self, step: StepMeasure) -> None:
        """Learn from a step that was planned here."""
        rows = len(step.verdicts)
        drafted = sum(verdict.drafted for verdict in step.verdicts)
        if rows not in self._costs:
            self._costs[rows] = _StepCost(self._nearest_slope(rows, step.seconds))
        self._costs[rows].observe(drafted, step.seconds)
        self._purse_s += PROBE_SHARE * step.seconds
        for verdict in step.verdicts:
            if verdict.drafted:
                self._observe_row(verdict)
                self._shared.observe(verdict)
                self._drafted += verdict.drafted
                self._accepted += verdict.accepted

    def forget(self, row: str) -> None:
        """The row has left the batch."""
        self._rows.pop(row, None)

    def snapshot(self) -> Snapshot:
        """Cheap; any time."""
        return Snapshot(
            drafted=self._drafted,
            accepted=self._accepted,
            acceptance=self._shared.chance,
            step_s={rows: cost.plain for rows, cost in self._costs.items()},
            draft_token_s={rows: cost.slope for rows, cost in self._costs.items()},
        )

    def _most_tokens_per_second(self, offers: Sequence[Offer], cost: _StepCost) -> list[int]:
        """Add the draft token that is worth most for as long as it is worth its time.

        The gains of a row fall with its draft's length and each token costs the same, so the best step of any size is
        the greediest one, and tokens a second rise up to the first token that does not pay and fall from there.
        """
        lengths = [0] * len(offers)
        chances = [self._chance(offer.row) for offer in offers]
        # Largest gain first; a heap gives its smallest.
        worth = [(-chance, i) for i, chance in enumerate(chances) if offers[i].length]
        heapq.heapify(worth)
        tokens, seconds = float(len(offers)), cost.plain
        while worth:
            gain, i = -worth[0][0], worth[0][1]
            if gain * seconds <= tokens * cost.slope:
                break
            lengths[i] += 1
            tokens += gain
            seconds += cost.slope
            if lengths[i] < min(offers[i].length, MAX_DRAFT):
                heapq.heapreplace(worth, (-gain * chances[i], i))
            else:
                heapq.heappop(worth)
        return lengths

    def _probe(self, offers: Sequence[Offer], lengths: list[int], cost: _StepCost) -> None:
        """Let the row that has waited longest for a draft try a short one, when the purse pays for it."""
        idle = [i for i, offer in enumerate(offers) if offer.length and not lengths[i]]
        price = PROBE_TOKENS * cost.slope
        if not idle or self._purse_s < price:
            return
        tried = {row: order for order, row in enumerate(self._rows)}
        i = min(idle, key=lambda index: tried.get(offers[index].row, -1))
        lengths[i] = min(offers[i].length, PROBE_TOKENS)
        # What was saved up beyond one probe is not spent: a text that does not repeat would pay for all at once.
        self._purse_s = 0.0

    def _observe_row(self, verdict: Verdict) -> None:
        row = self._rows.pop(verdict.row, None) or _Acceptance(_ROW_MEMORY_TRIALS, self._shared.chance)
        row.observe(verdict)
        # In the order of their last draft, for `_probe`.
        self._rows[verdict.row] = row

    def _chance(self, row: str) -> float:
        """A new row is taken for an average one."""
        return self._rows.get(row, self._shared).chance

    def _nearest_slope(self, rows: int, seconds: float) -> float:
        """What a draft token costs in a batch of a size not seen before; `seconds` is its first step."""
        if not self._costs:
            return _FIRST_SLOPE * seconds
        return self._costs[min(self._costs, key=lambda seen: abs(seen - rows))].slope


@dataclass(slots=True)
class _Acceptance:
    """How often a draft token was accepted of late; what stands after a refused token was never put to the test."""

    memory_trials: float
    chance: float
    """Of the next draft token; at first that of others."""
    _trials: float = _PRIOR_TRIALS

    def observe(self, verdict: Verdict) -> None:
        trials = min(verdict.accepted + 1, verdict.drafted)
        kept = self._trials * (1 - 1 / self.memory_trials) ** trials
        self._trials = kept + trials
        self.chance = (self.chance * kept + verdict.accepted) / self._trials


@dataclass(slots=True)
class _StepCost:
    """Seconds of a step as `plain + slope * drafted`: least squares over recent steps.

    The slope is drawn towards its last value, so that it stays where it was while all drafts are equally long.
    One step that takes far too long was held up by something else and does not count; a second one in a row does, in
    part. One that takes far too little, among the first ones, shows that those before it were a warm-up.
    """

    slope: float
    _late: bool = False
    _weight: float = 0.0
    _drafted: float = 0.0
    _seconds: float = 0.0
    _spread: float = 0.0
    _together: float = 0.0

    @property
    def plain(self) -> float:
        return max(0.0, self._seconds - self.slope * self._drafted)

    def observe(self, drafted: int, seconds: float) -> None:
        if self._weight:
            expected = self.plain + self.slope * drafted
            if seconds * _OUTLIER < expected and self._weight < _WARM_UP_STEPS:
                self.slope *= seconds / expected
                self._weight = self._spread = self._together = 0.0
            was_late, self._late = self._late, seconds > _OUTLIER * expected
            if self._late and not was_late:
                return
            seconds = min(seconds, _OUTLIER * expected)
        kept = 1 - 1 / _COST_MEMORY_STEPS
        self._weight = kept * self._weight + 1
        off_drafted, off_seconds = drafted - self._drafted, seconds - self._seconds
        self._drafted += off_drafted / self._weight
        self._seconds += off_seconds / self._weight
        self._spread = kept * self._spread + off_drafted * (drafted - self._drafted)
        self._together = kept * self._together + off_drafted * (seconds - self._seconds)
        slope = (self._together + _COST_ANCHOR * self.slope) / (self._spread + _COST_ANCHOR)
        self.slope = max(slope, _LEAST_SLOPE * self._seconds)

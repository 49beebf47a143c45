"""How far to trust drafts: every row's draft length, so that the whole batch gains the most tokens a second. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from .draft_costs import Acceptance, StepCost
from .protocol import DraftMethod
from .speculative import MAX_DRAFT, Offer, StepMeasure, Verdict

PROBE_SHARE = 0.01
"""Share of the time that drafts may cost which are not expected to pay, but would tell that a text has changed."""

PROBE_TOKENS = 2

_FIRST_SLOPE = 0.07
"""Cost of a draft token as a share of a step before any was measured (CPU, demo model: 4 ms of 56 ms)."""
_FIRST_PASS = 0.2
"""Cost of a draft model's pass, as a share of a step, before any was measured."""
_PASS_MEMORY = 0.1
"""Weight of the newest pass in the running estimate."""

_LEAVING = 0.4
"""What it costs, as a share of a step, that a row leaves those that attend together and joins them some steps later
(CPU, demo model: 40 ms at 8 and at 16 rows)."""

_ROW_MEMORY_TRIALS = 16.0
_SHARED_MEMORY_TRIALS = 256.0
_FIRST_ACCEPTANCE = 0.5


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the controller believes, for people and metrics."""

    drafted: int
    accepted: int
    acceptance: float
    """Chance that a draft token of prompt lookup is accepted, over all rows of late."""
    step_s: dict[int, float]
    """Cost of a step without drafts, by its number of rows."""
    draft_token_s: dict[int, float]
    """What one draft token adds to it, by the number of rows."""


@dataclass(slots=True)
class _Step:
    """A step that could be taken: how many tokens are expected of it, in how many seconds."""

    lengths: list[int]
    tokens: float
    seconds: float

    @property
    def rate(self) -> float:
        return self.tokens / max(self.seconds, 1e-9)


class Controller:
    """Chooses every row's draft length.

    A draft of k tokens, each accepted with chance p, gives (1 - p^(k+1)) / (1 - p) tokens (Leviathan, Kalman and
    Matias 2023), so its k-th token is worth p^k. A step costs a + b * drafted seconds, fitted for each number of rows,
    and each pass of a draft model, over however many rows, its own time. Tokens a second are greatest where the next
    draft token, anywhere in the batch, is worth less than the tokens that the batch makes in the time it costs.
    """

    def __init__(self) -> None:
        self._costs: dict[int, StepCost] = {}
        self._pass_s: dict[int, float] = {}
        self._rows: dict[tuple[str, DraftMethod], Acceptance] = {}
        self._shared = {method: Acceptance(_SHARED_MEMORY_TRIALS, _FIRST_ACCEPTANCE) for method in DraftMethod}
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
        pass_s = self._cost_of_pass(len(offers), cost)
        modelled = max((offer.length for offer in offers if offer.method is DraftMethod.DRAFT_MODEL), default=0)
        # The best step of each number of passes is known, so the best of all is among them.
        steps = (self._best(offers, cost, passes, passes * pass_s) for passes in range(modelled + 1))
        best = max(steps, key=lambda step: step.rate)
        self._probe(offers, best.lengths, cost, pass_s)
        return best.lengths

    def observe(self, step: StepMeasure) -> None:
        """Learn from a step that was planned here."""
        rows = len(step.verdicts)
        drafted = sum(verdict.drafted for verdict in step.verdicts)
        if rows not in self._costs:
            self._costs[rows] = StepCost(self._nearest_slope(rows, step.seconds))
        self._costs[rows].observe(drafted, step.seconds)
        if step.passes:
            known = self._pass_s.setdefault(rows, step.pass_s)
            self._pass_s[rows] = known + _PASS_MEMORY * (step.pass_s - known)
        self._purse_s += PROBE_SHARE * step.seconds
        for verdict in step.verdicts:
            if verdict.drafted:
                self._observe_row(verdict)
                self._shared[verdict.method].observe(verdict)
                self._drafted += verdict.drafted
                self._accepted += verdict.accepted

    def forget(self, row: str) -> None:
        """The row has left the batch."""
        for method in DraftMethod:
            self._rows.pop((row, method), None)

    def chance(self, row: str, method: DraftMethod) -> float:
        """That the row's next draft token of this method is accepted; a new row is taken for an average one."""
        return self._rows.get((row, method), self._shared[method]).chance

    def snapshot(self) -> Snapshot:
        """Cheap; any time."""
        return Snapshot(
            drafted=self._drafted,
            accepted=self._accepted,
            acceptance=self._shared[DraftMethod.PROMPT_LOOKUP].chance,
            step_s={rows: cost.plain for rows, cost in self._costs.items()},
            draft_token_s={rows: cost.slope for rows, cost in self._costs.items()},
        )

    def _best(self, offers: Sequence[Offer], cost: StepCost, passes: int, passes_s: float) -> _Step:
        """The best step in which a draft model makes so many passes.

        Add the draft token that is worth most for as long as it is worth its time: the gains of a row fall with its
        draft's length and each token costs the same, so the best step of any size is the greediest one, and tokens a
        second rise up to the first token that does not pay and fall from there.
        """
        step = _Step([0] * len(offers), float(len(offers)), cost.plain + passes_s)
        chances = [self.chance(offer.row, offer.method) for offer in offers]
        limits = [
            min(offer.length, passes if offer.method is DraftMethod.DRAFT_MODEL else MAX_DRAFT) for offer in offers
        ]
        # Largest gain first; a heap gives its smallest.
        worth = [(-chance, i) for i, chance in enumerate(chances) if limits[i]]
        heapq.heapify(worth)
        while worth:
            gain, i = -worth[0][0], worth[0][1]
            if gain * step.seconds <= step.tokens * cost.slope:
                break
            step.lengths[i] += 1
            step.tokens += gain
            step.seconds += cost.slope
            if step.lengths[i] < limits[i]:
                heapq.heapreplace(worth, (-gain * chances[i], i))
            else:
                heapq.heappop(worth)
        for i in (i for i, offer in enumerate(offers) if offer.stacked and step.lengths[i]):
            self._weigh_leaving(step, i, chances[i], cost)
        return step

    @staticmethod
    def _weigh_leaving(step: _Step, i: int, chance: float, cost: StepCost) -> None:
        """A stacked row's draft must pay for that the row leaves, too; one that does not is taken out of the step."""
        length = step.lengths[i]
        gain = sum(chance**k for k in range(1, length + 1))
        without = _Step(step.lengths, step.tokens - gain, step.seconds - length * cost.slope)
        step.seconds += _LEAVING * cost.plain
        if step.rate <= without.rate:
            step.tokens, step.seconds = without.tokens, without.seconds
            step.lengths[i] = 0

    def _probe(self, offers: Sequence[Offer], lengths: list[int], cost: StepCost, pass_s: float) -> None:
        """Let the row that has waited longest for a draft try a short one, when the purse pays for it."""
        idle = [i for i, offer in enumerate(offers) if offer.length and not lengths[i]]
        if not idle:
            return
        tried = {key: order for order, key in enumerate(self._rows)}
        i = min(idle, key=lambda index: tried.get((offers[index].row, offers[index].method), -1))
        price = PROBE_TOKENS * (cost.slope + (pass_s if offers[i].method is DraftMethod.DRAFT_MODEL else 0.0))
        price += _LEAVING * cost.plain if offers[i].stacked else 0.0
        if self._purse_s < price:
            return
        lengths[i] = min(offers[i].length, PROBE_TOKENS)
        # What was saved up beyond one probe is not spent: a text that does not repeat would pay for all at once.
        self._purse_s = 0.0

    def _observe_row(self, verdict: Verdict) -> None:
        key = (verdict.row, verdict.method)
        row = self._rows.pop(key, None) or Acceptance(_ROW_MEMORY_TRIALS, self._shared[verdict.method].chance)
        row.observe(verdict)
        # In the order of their last draft, for `_probe`.
        self._rows[key] = row

    def _nearest_slope(self, rows: int, seconds: float) -> float:
        """What a draft token costs in a batch of a size not seen before; `seconds` is its first step."""
        if not self._costs:
            return _FIRST_SLOPE * seconds
        return self._costs[min(self._costs, key=lambda seen: abs(seen - rows))].slope

    def _cost_of_pass(self, rows: int, cost: StepCost) -> float:
        if not self._pass_s:
            return _FIRST_PASS * cost.plain
        return self._pass_s[min(self._pass_s, key=lambda seen: abs(seen - rows))]

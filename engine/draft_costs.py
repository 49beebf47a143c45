"""What drafts come to, learned from finished steps: how often they are right, and what they cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .speculative import Verdict

_COST_MEMORY_STEPS = 32.0
_COST_ANCHOR = 4.0
"""How many squared tokens of spread in the drafts weigh as much as the slope that was known before."""
_LEAST_SLOPE = 0.002
"""A draft token costs at least this share of a step, however noise makes it look."""
_OUTLIER = 3.0
_WARM_UP_STEPS = 8.0

_PRIOR_TRIALS = 2.0


@dataclass(slots=True)
class Acceptance:
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
class StepCost:
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

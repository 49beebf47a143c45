"""What came of a chaos run: failures, texts that differ and how, and how long streams paused. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.soak.texts import parting
from tests.chaos.clients import Answer
from tests.chaos.monkey import Kill
from tests.chaos.workload import Request

IN_TRANSIT_S = 0.1
"""What arrives so soon after a kill was sent before it."""
GREEDY_EQUAL_SHARE = 0.99
GAP_FACTOR = 1.3
TIE_MARGIN = 1e-3


@dataclass(frozen=True)
class Gap:
    """How long one stream paused at one kill, and how long starting, loading and prefilling alone would take."""

    seconds: float
    ideal_s: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.ideal_s


@dataclass(frozen=True)
class Difference:
    """A text that is not the undisturbed run's; `shifted` when tokens were lost or repeated rather than drawn anew.

    `margin` is how far apart, in natural log probability, the two tokens are by which a greedy text differs.
    """

    request: Request
    got: str
    expected: str
    at: int
    shifted: bool
    margin: float | None = None

    @property
    def tie(self) -> bool:
        """Floating point decided, not the model."""
        return self.margin is not None and self.margin < TIE_MARGIN


@dataclass(frozen=True)
class Findings:
    """One run's numbers."""

    kills: tuple[Kill, ...]
    answers: int
    tokens: int
    errors: tuple[str, ...]
    wrong_counts: tuple[str, ...]
    greedy: int
    differences: tuple[Difference, ...]
    gaps: tuple[Gap, ...]

    @property
    def greedy_differences(self) -> int:
        return sum(difference.request.greedy for difference in self.differences)

    @property
    def ties(self) -> int:
        return sum(difference.tie for difference in self.differences)

    @property
    def shifted(self) -> int:
        return sum(difference.shifted for difference in self.differences)

    @property
    def gap_ratio(self) -> float:
        """How many times what could not be avoided the median stream paused."""
        return statistics.median(gap.ratio for gap in self.gaps)

    def problems(self) -> list[str]:
        """Everything that breaks the promise; nothing for a run that kept it."""
        found = [f"failed: {error}" for error in self.errors] + [f"tokens: {wrong}" for wrong in self.wrong_counts]
        found += [
            f"lost or repeated: {d.expected[d.at :]!r} became {d.got[d.at :]!r}" for d in self.differences if d.shifted
        ]
        found += [
            f"drawn anew, and no tie (margin {d.margin}): {d.expected[d.at :]!r} became {d.got[d.at :]!r}"
            for d in self.differences
            if d.request.greedy and not d.tie and not d.shifted
        ]
        # One tie among few answers is more than a hundredth of them.
        if self.greedy_differences > max(1.0, (1 - GREEDY_EQUAL_SHARE) * self.greedy):
            found.append(f"{self.greedy_differences} of {self.greedy} greedy texts differ")
        if not self.kills or not self.gaps:
            found.append("nothing was interrupted")
        elif self.gap_ratio > GAP_FACTOR:
            found.append(f"the median pause is {self.gap_ratio:.2f} times what cannot be avoided, over {GAP_FACTOR}")
        return found


def judge(
    answers: Sequence[Answer],
    undisturbed: Mapping[Request, str],
    kills: Sequence[Kill],
    prefilled_again: Mapping[int, int],
    prefill_tokens_per_s: float,
) -> Findings:
    """`prefilled_again` is, by epoch, how many tokens of resumed requests its engine found in no cache;
    `prefill_tokens_per_s` is the engine's own measure, of a prompt that it had to itself."""
    good = [answer for answer in answers if answer.error is None]
    differences = (difference(answer.request, answer.text, undisturbed[answer.request]) for answer in good)
    return Findings(
        kills=tuple(kills),
        answers=len(answers),
        tokens=sum(answer.completion_tokens for answer in good),
        errors=tuple(answer.error for answer in answers if answer.error is not None),
        wrong_counts=tuple(wrong for answer in good if (wrong := _wrong_count(answer)) is not None),
        greedy=sum(answer.request.greedy for answer in good),
        differences=tuple(found for found in differences if found is not None),
        gaps=tuple(
            gap for kill in kills for gap in gaps(kill, answers, prefilled_again[kill.epoch] / prefill_tokens_per_s)
        ),
    )


def difference(request: Request, got: str, expected: str) -> Difference | None:
    """How two texts part."""
    found = parting(got, expected)
    return Difference(request, got, expected, found.at, found.shifted) if found is not None else None


def _wrong_count(answer: Answer) -> str | None:
    """An answer that was cut at its bound has exactly that many tokens, whatever happened on the way."""
    if answer.finish_reason == "length" and answer.completion_tokens != answer.request.max_tokens:
        return f"{answer.completion_tokens} instead of {answer.request.max_tokens}"
    return None


def gaps(kill: Kill, answers: Iterable[Answer], prefill_s: float) -> list[Gap]:
    """The pause of every stream that had begun, from the kill to its next piece of text.

    What cannot be avoided is the new process's start, its model's loading, and then `prefill_s`.
    """
    hit = [answer for answer in answers if answer.began < kill.at < answer.ended]
    pauses = (_pause(answer.arrivals, kill.at) for answer in hit)
    return [Gap(pause, kill.start_s + prefill_s) for pause in pauses if pause is not None]


def _pause(arrivals: Sequence[float], at: float) -> float | None:
    after = next((arrival for arrival in arrivals if arrival > at + IN_TRANSIT_S), None)
    return None if after is None or not arrivals or arrivals[0] > at else after - at

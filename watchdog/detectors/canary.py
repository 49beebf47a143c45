"""The canary: a tiny request end to end that is answered, in time, and the same with and without the cache."""

from __future__ import annotations

from ..samples import Check, Sample
from ..verdicts import Cause, DetectorName, Level, Number, Verdict

IN_A_ROW = 3
LATE_S = 60.0
LATE_RATIO = 10.0
"""Late is beyond a minute and beyond this many times what is usual; it queues behind users, so one is no finding."""
LEARN = 0.1


class CanaryDetector:
    """One wrong answer fires at once; late and missing ones when there are three in a row."""

    def __init__(self) -> None:
        self._judged: int | None = None
        self._usual_s: float | None = None
        self._unanswered = 0
        self._late = 0
        self._wrong = False

    def update(self, sample: Sample) -> Verdict:
        check = sample.canary
        if check is None:
            return Verdict(DetectorName.CANARY, Level.OK, "no canary has been sent")
        if check.number != self._judged:
            self._judged = check.number
            self._judge(check)
        return self._verdict(check)

    def _judge(self, check: Check) -> None:
        self._unanswered = 0 if check.answered else self._unanswered + 1
        if check.cache_is_right is not None:
            self._wrong = not check.cache_is_right
        if not check.answered:
            return
        late = check.duration_s > max(LATE_S, LATE_RATIO * (self._usual_s or 0.0))
        self._late = self._late + 1 if late else 0
        if not late:
            usual = self._usual_s if self._usual_s is not None else check.duration_s
            self._usual_s = usual + LEARN * (check.duration_s - usual)

    def _verdict(self, check: Check) -> Verdict:
        missed = max(self._unanswered, self._late)
        cause, sentence = None, f"the canary was answered in {check.duration_s:.1f} s"
        if self._wrong:
            cause = Cause.WRONG
            sentence = f"the same prompt gave other tokens with the prefix cache than without (canary {check.number})"
        elif self._unanswered:
            cause, sentence = Cause.UNANSWERED, f"{self._unanswered} canaries in a row were not answered"
        elif self._late:
            usual = f", usual are {self._usual_s:.1f} s" if self._usual_s is not None else ""
            cause, sentence = Cause.LATE, f"{self._late} canaries in a row were late ({check.duration_s:.0f} s{usual})"
        bad = Level.FIRING if self._wrong or missed >= IN_A_ROW else Level.SUSPECT
        numbers = {Number.DURATION_SECONDS: check.duration_s, Number.MISSED: float(missed)}
        level = Level.OK if cause is None else bad
        return Verdict(DetectorName.CANARY, level, sentence, numbers, 0.0, 1.0, cause)

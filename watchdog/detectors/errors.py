"""Answers that fail: 5xx and broken streams, as a share of what ended in the last five minutes."""

from __future__ import annotations

import math

from ..samples import Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .windows import MINUTE_S, Counted

WINDOW_S = 5 * MINUTE_S
FIRING_SHARE = 0.05
SUSPECT_SHARE = 0.02
FEWEST_ERRORS = 3
Z = 2.58
"""One-sided 99.5 %."""


class ErrorsDetector:
    """The lower bound of the share counts, so that one failure among two requests is no finding."""

    def __init__(self) -> None:
        self._requests = Counted(WINDOW_S, 10.0)
        self._errors = Counted(WINDOW_S, 10.0)

    def update(self, sample: Sample) -> Verdict:
        service = sample.service
        if service.requests_total is None or service.errors_total is None:
            return Verdict(DetectorName.ERRORS, Level.OK, "nothing is known about requests")
        self._requests.add(sample.at, service.requests_total)
        self._errors.add(sample.at, service.errors_total)
        requests, errors = self._requests.growth, self._errors.growth
        share = errors / requests if requests else 0.0
        surely = lower_bound(errors, requests) if errors >= FEWEST_ERRORS else 0.0
        level = Level.FIRING if surely >= FIRING_SHARE else Level.SUSPECT if surely >= SUSPECT_SHARE else Level.OK
        numbers = {Number.ERROR_SHARE: share, Number.REQUESTS: requests}
        sentence = f"{errors:.0f} of {requests:.0f} requests failed in the last 5 minutes ({share:.1%})"
        return Verdict(DetectorName.ERRORS, level, sentence, numbers, WINDOW_S, 0.995 if errors else 0.0)


def lower_bound(errors: float, requests: float) -> float:
    """Wilson's lower bound of a share ("Probable inference", JASA 22, 1927)."""
    if requests <= 0:
        return 0.0
    share, z2 = min(errors / requests, 1.0), Z * Z
    middle = share + z2 / (2 * requests)
    spread = Z * math.sqrt(share * (1 - share) / requests + z2 / (4 * requests * requests))
    return max((middle - spread) / (1 + z2 / requests), 0.0)

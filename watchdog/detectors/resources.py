"""A count that ends the process at its limit: Metal's resources, some hundred thousand tokens after the start.

oMLX #2535: 499,000 of them, and the process is gone. Recycling it in a quiet minute before that is no trouble.
"""

from __future__ import annotations

from ..samples import Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .windows import HOUR_S, MINUTE_S, Readings

FIRING_SHARE = 0.8
SUSPECT_SHARE = 0.6
SOON_S = HOUR_S


class ResourcesDetector:
    """Of one incarnation. Fires at four fifths of the limit, or when it is an hour away at the present growth."""

    def __init__(self) -> None:
        self._counts = Readings(30 * MINUTE_S, MINUTE_S)

    def update(self, sample: Sample) -> Verdict:
        engine = sample.engine
        if engine is None or engine.resources is None or not engine.resources_limit:
            return Verdict(DetectorName.RESOURCES, Level.OK, "no count of resources is known")
        self._counts.add(sample.at, engine.resources)
        used = engine.resources / engine.resources_limit
        left_s = self._left_s(engine.resources_limit - engine.resources)
        soon = left_s is not None and left_s < SOON_S and used >= SUSPECT_SHARE / 2
        level = Level.FIRING if used >= FIRING_SHARE or soon else Level.SUSPECT if used >= SUSPECT_SHARE else Level.OK
        numbers = {Number.USED_SHARE: used}
        until = ""
        if left_s is not None:
            numbers[Number.EXHAUSTION_SECONDS] = left_s
            until = f", and reaches it in {left_s / HOUR_S:.1f} h"
        sentence = (
            f"the engine holds {engine.resources} of at most {engine.resources_limit} resources ({used:.0%}){until}"
        )
        return Verdict(DetectorName.RESOURCES, level, sentence, numbers, self._counts.covered_s, 1.0)

    def _left_s(self, left: int) -> float | None:
        if self._counts.covered_s < 10 * MINUTE_S or self._counts.growth <= 0:
            return None
        return left / self._counts.growth * self._counts.covered_s

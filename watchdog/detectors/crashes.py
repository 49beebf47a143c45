"""An engine that dies again and again, faster or slower than what opens the supervisor's own circuit."""

from __future__ import annotations

from ..samples import Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .windows import HOUR_S, MINUTE_S, Counted

WINDOW_S = 6 * HOUR_S
SHORT_S = 10 * MINUTE_S
FIRING_IN_SHORT, SUSPECT_IN_SHORT = 3, 2
FIRING_IN_WINDOW, SUSPECT_IN_WINDOW = 6, 3


class CrashesDetector:
    """Counts deaths that nobody ordered."""

    def __init__(self) -> None:
        self._deaths = Counted(WINDOW_S, MINUTE_S)

    def update(self, sample: Sample) -> Verdict:
        self._deaths.add(sample.at, sample.engine_deaths_total)
        lately, overall = self._deaths.growth_within(SHORT_S), self._deaths.growth
        level = Level.OK
        if lately >= FIRING_IN_SHORT or overall >= FIRING_IN_WINDOW:
            level = Level.FIRING
        elif lately >= SUSPECT_IN_SHORT or overall >= SUSPECT_IN_WINDOW:
            level = Level.SUSPECT
        sentence = f"the engine died {lately:.0f} times in 10 minutes and {overall:.0f} times in 6 hours"
        return Verdict(DetectorName.CRASHES, level, sentence, {Number.DEATHS: overall}, WINDOW_S, 1.0)

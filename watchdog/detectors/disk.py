"""The disk under `$STOKER_HOME` filling up."""

from __future__ import annotations

from ..samples import Sample
from ..verdicts import DetectorName, Level, Number, Verdict
from .windows import HOUR_S, MINUTE_S, Held, Readings

FIRING_BYTES, FIRING_SHARE = 1e9, 0.02
SUSPECT_BYTES, SUSPECT_SHARE = 5e9, 0.05
SOON_S = HOUR_S
WINDOW_S = 20 * MINUTE_S


class DiskDetector:
    """Fires when little is left, or when what was written in the last minutes would take it all within an hour."""

    def __init__(self) -> None:
        self._free = Readings(WINDOW_S, MINUTE_S)
        self._firing = Held(MINUTE_S, 5 * MINUTE_S)

    def update(self, sample: Sample) -> Verdict:
        free, size = sample.host.disk_free_bytes, sample.host.disk_bytes
        if free is None or not size:
            return Verdict(DetectorName.DISK, Level.OK, "the room on the disk is not known")
        self._free.add(sample.at, free)
        left_s = self._left_s(free)
        little = free < min(SUSPECT_BYTES, SUSPECT_SHARE * size)
        soon = left_s is not None and left_s < SOON_S and free < 0.2 * size
        firing = self._firing.update(sample.at, free < min(FIRING_BYTES, FIRING_SHARE * size) or soon)
        level = Level.FIRING if firing else Level.SUSPECT if little or soon else Level.OK
        numbers = {Number.FREE_BYTES: float(free), Number.USED_SHARE: 1 - free / size}
        until = ""
        if left_s is not None:
            numbers[Number.EXHAUSTION_SECONDS] = left_s
            until = f", which would last {left_s / HOUR_S:.1f} h at the present rate"
        sentence = f"{free / 1e9:.1f} GB of {size / 1e9:.0f} GB are free under the home{until}"
        return Verdict(DetectorName.DISK, level, sentence, numbers, WINDOW_S, 1.0)

    def _left_s(self, free: int) -> float | None:
        """At the window's rate, if its second half still goes that way: a download ends, a runaway does not."""
        covered_s, fall = self._free.covered_s, -self._free.growth
        if covered_s < WINDOW_S - MINUTE_S or fall <= 0:
            return None
        late_fall = self._free.at_before(covered_s / 2) - free
        return free / max(fall, 2 * late_fall) * covered_s if late_fall > 0.3 * fall else None

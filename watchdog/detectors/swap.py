"""Swap that grows, and whose memory it is.

One burst is the system putting idle pages away, which costs nobody anything. Growth minute after minute means that
memory which is in use is being put away.
"""

from __future__ import annotations

from itertools import pairwise

from ..samples import HostReading, Sample
from ..verdicts import Cause, DetectorName, Level, Number, Verdict
from .windows import MINUTE_S, Counted, Held, Readings

WINDOW_S = 3 * MINUTE_S
SPACING_S = 10.0
FIRING_BYTES = 96e6
"""Growth within the window; with every minute of it above `MINUTE_BYTES`."""
MINUTE_BYTES = 16e6
OTHERS_SHARE = 0.6
LEAVE_S = 5 * MINUTE_S


class SwapDetector:
    """Growth of the swap in use, or of what is written to it, over three minutes in a row."""

    def __init__(self) -> None:
        self._used = Readings(WINDOW_S, SPACING_S)
        self._others = Readings(WINDOW_S, SPACING_S)
        self._out = Counted(WINDOW_S, SPACING_S)
        self._in = Counted(WINDOW_S, SPACING_S)
        self._firing = Held(0.0, LEAVE_S)

    def update(self, sample: Sample) -> Verdict:
        host = sample.host
        if host.swap_used_bytes is None and host.swap_out_bytes_total is None:
            return Verdict(DetectorName.SWAP, Level.OK, "nothing is known about swap")
        self._read(sample.at, host)
        minutes = self._by_minute()
        growth = sum(minutes)
        grows = growth >= FIRING_BYTES and min(minutes, default=0.0) >= MINUTE_BYTES
        firing = self._firing.update(sample.at, grows)
        level = Level.FIRING if firing else Level.SUSPECT if growth >= FIRING_BYTES else Level.OK
        others = self._others_share()
        cause = None if others is None else Cause.OTHERS if others >= OTHERS_SHARE else Cause.OURS
        return self._verdict(level, host, growth, others, cause if level is not Level.OK else None)

    def _read(self, at: float, host: HostReading) -> None:
        if host.swap_used_bytes is not None:
            self._used.add(at, host.swap_used_bytes)
        if host.swap_others_bytes is not None:
            self._others.add(at, host.swap_others_bytes)
        if host.swap_out_bytes_total is not None:
            self._out.add(at, host.swap_out_bytes_total)
        if host.swap_in_bytes_total is not None:
            self._in.add(at, host.swap_in_bytes_total)

    def _by_minute(self) -> list[float]:
        """Growth of swap in each minute of the window, oldest first; empty while the window is not full."""
        if self._used.covered_s < WINDOW_S:
            return []
        levels = [self._used.at_before(minutes * MINUTE_S) for minutes in (3, 2, 1)] + [self._used.values[-1]]
        return [after - before for before, after in pairwise(levels)]

    def _others_share(self) -> float | None:
        growth = self._used.growth
        if growth <= 0 or self._others.covered_s == 0:
            return None
        return min(max(self._others.growth / growth, 0.0), 1.0)

    def _verdict(
        self, level: Level, host: HostReading, growth: float, others: float | None, cause: Cause | None
    ) -> Verdict:
        numbers = {
            Number.GROWTH_BYTES: growth,
            Number.SWAP_OUT_BYTES_PER_MINUTE: self._out.growth / WINDOW_S * MINUTE_S,
            Number.SWAP_IN_BYTES_PER_MINUTE: self._in.growth / WINDOW_S * MINUTE_S,
        }
        if host.swap_used_bytes is not None:
            numbers[Number.SWAP_USED_BYTES] = float(host.swap_used_bytes)
        if others is not None:
            numbers[Number.OTHERS_SHARE] = others
        whose = (
            {Cause.OTHERS: ", mostly of other programs", Cause.OURS: ", mostly our own"}.get(cause, "") if cause else ""
        )
        sentence = (
            f"swap grew by {growth / 1e6:.0f} MB in 3 minutes{whose}; "
            f"{(host.swap_used_bytes or 0) / 1e9:.1f} GB of it are in use"
        )
        return Verdict(DetectorName.SWAP, level, sentence, numbers, WINDOW_S, 1.0, cause)

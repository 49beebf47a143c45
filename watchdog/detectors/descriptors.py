"""File descriptors that are not given back, in the engine or the service."""

from __future__ import annotations

from itertools import pairwise

from ..samples import Sample
from ..verdicts import Cause, DetectorName, Level, Number, Verdict
from .windows import MINUTE_S, Held, Low, Minima

FIRING_SHARE = 0.8
SUSPECT_SHARE = 0.5
LEAK_SHARE = 0.25
"""Below this share of the limit, a rise is left to its own."""
BUCKETS = 12


class DescriptorsDetector:
    """Fires near the limit, or when the minima of six hours rise all the time and are well on the way there."""

    def __init__(self) -> None:
        self._children = {Cause.ENGINE: _Child(), Cause.SERVICE: _Child()}

    def update(self, sample: Sample) -> Verdict:
        engine, service = sample.engine, sample.service
        readings = {
            Cause.ENGINE: (engine.pid, engine.fds, engine.fds_limit) if engine is not None else (None, None, None),
            Cause.SERVICE: (service.pid, service.fds, service.fds_limit),
        }
        verdicts = [
            self._children[cause].judge(sample.at, cause, pid, fds, limit)
            for cause, (pid, fds, limit) in readings.items()
        ]
        return max(verdicts, key=lambda verdict: (list(Level).index(verdict.level), verdict.confidence))


class _Child:
    def __init__(self) -> None:
        self._pid: int | None = None
        self._forget()

    def _forget(self) -> None:
        self._minima = Minima(30 * MINUTE_S, BUCKETS)
        self._near = Held(MINUTE_S, 5 * MINUTE_S)

    def judge(self, at: float, cause: Cause, pid: int | None, fds: int | None, limit: int | None) -> Verdict:
        if fds is None or not limit:
            return Verdict(DetectorName.DESCRIPTORS, Level.OK, f"the {cause}'s descriptors are not known", cause=cause)
        if pid != self._pid:
            self._pid = pid
            self._forget()
        self._minima.add(Low(at, fds))
        used = fds / limit
        near = self._near.update(at, used >= FIRING_SHARE)
        leaks = used >= LEAK_SHARE and self._rises()
        level = Level.FIRING if near or leaks else Level.SUSPECT if used >= SUSPECT_SHARE else Level.OK
        rising = ", more each half hour for 6 hours" if leaks else ""
        sentence = f"the {cause} has {fds} of at most {limit} descriptors open ({used:.0%}){rising}"
        return Verdict(DetectorName.DESCRIPTORS, level, sentence, {Number.USED_SHARE: used}, 0.0, min(used, 1.0), cause)

    def _rises(self) -> bool:
        """Every half hour of six needed more than the one before it, and the last at least twice the first."""
        values = [low.value for low in self._minima.lows]
        rising = all(after > before for before, after in pairwise(values))
        return self._minima.full and rising and values[-1] >= 2 * values[0]

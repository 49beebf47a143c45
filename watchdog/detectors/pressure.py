"""Memory that is nearly all in use, by this tree or by others, and how much load must be turned away for it."""

from __future__ import annotations

from ...config import Shedding
from ..samples import EngineReading, HostReading, Sample
from ..verdicts import Cause, DetectorName, Level, Number, Verdict
from .shortage import Shortage, Usage, usage
from .windows import Held

FIRING_SHARE = 0.92
SUSPECT_SHARE = 0.85
HYSTERESIS = 0.04
FULL_STALL_SHARE = 0.10
SOME_STALL_SHARE = 0.20
MAC_WARNING, MAC_CRITICAL = 2, 4
HOLD_S = 10.0
LEAVE_S = 60.0


class PressureDetector:
    """Use against the engine's limit and the machine's memory, and the system's own complaints.

    A shortage fires at once: what is let in now may be what ends the process.
    """

    def __init__(self, shedding: Shedding | None = None) -> None:
        self._shortage = Shortage(shedding or Shedding())
        self._firing = Held(HOLD_S, LEAVE_S)
        self._suspect = Held(HOLD_S, LEAVE_S)

    def update(self, sample: Sample) -> Verdict:
        ours, host = _own_share(sample.engine), _host_share(sample.host)
        used = max(ours or 0.0, host or 0.0)
        system_firing, system_suspect = _complaints(sample.host)
        firing = self._firing.update(sample.at, system_firing or used >= _bound(FIRING_SHARE, self._firing.on))
        suspect = self._suspect.update(sample.at, system_suspect or used >= _bound(SUSPECT_SHARE, self._suspect.on))
        live = usage(sample)
        shed = self._shortage.update(live, sample.at)
        level = Level.FIRING if firing or shed else Level.SUSPECT if suspect else Level.OK
        numbers = {Number.MEMORY_SHARE: used, Number.SHED_LEVEL: float(shed)}
        if sample.host.pressure_full_share is not None:
            numbers[Number.PRESSURE_SHARE] = sample.host.pressure_full_share
        cause = None if level is Level.OK else _cause(sample, ours)
        sentence = _sentence(sample, live if shed else None, ours, host)
        return Verdict(DetectorName.PRESSURE, level, sentence, numbers, HOLD_S, min(used, 1.0), cause)


def _bound(share: float, on: bool) -> float:
    return share - HYSTERESIS if on else share


def _own_share(engine: EngineReading | None) -> float | None:
    """The pool counts: it is given back first when memory is short, and is held until then."""
    if engine is None or not engine.limit_bytes or engine.active_bytes is None:
        return None
    return (engine.active_bytes + (engine.cache_bytes or 0)) / engine.limit_bytes


def _host_share(host: HostReading) -> float | None:
    if not host.memory_bytes or host.available_bytes is None:
        return None
    return 1 - host.available_bytes / host.memory_bytes


def _complaints(host: HostReading) -> tuple[bool, bool]:
    """Whether the system says that it is critical, and whether it says that it is not well."""
    level = host.pressure_level or 0
    firing = level >= MAC_CRITICAL or (host.pressure_full_share or 0.0) >= FULL_STALL_SHARE
    return firing, firing or level >= MAC_WARNING or (host.pressure_some_share or 0.0) >= SOME_STALL_SHARE


def _cause(sample: Sample, ours: float | None) -> Cause | None:
    if ours is not None and ours >= SUSPECT_SHARE - HYSTERESIS:
        return Cause.OURS
    host, engine = sample.host, sample.engine
    if host.memory_bytes is None or host.available_bytes is None:
        return None
    if engine is None:
        return Cause.OTHERS
    if engine.footprint_bytes is None:
        return None
    return Cause.OURS if engine.footprint_bytes >= 0.5 * (host.memory_bytes - host.available_bytes) else Cause.OTHERS


def _sentence(sample: Sample, short: Usage | None, ours: float | None, host: float | None) -> str:
    parts = [str(short)] if short is not None else []
    if ours is not None:
        parts.append(f"the engine holds {ours:.0%} of its memory limit")
    if host is not None:
        parts.append(f"{host:.0%} of the machine's memory is in use")
    if sample.host.pressure_level is not None:
        parts.append(f"the system's pressure level is {sample.host.pressure_level}")
    if sample.host.pressure_full_share is not None:
        parts.append(f"tasks stall for memory {sample.host.pressure_full_share:.0%} of the time")
    return ", ".join(parts) or "nothing is known about memory"

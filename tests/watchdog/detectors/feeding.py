"""Samples a detector is fed with, in few words."""

from __future__ import annotations

from collections.abc import Callable

from stoker.watchdog.samples import Check, EngineReading, HostReading, Sample, ServiceReading
from stoker.watchdog.verdicts import Detector, Verdict

GB = 10**9
MB = 10**6
MINUTE_S = 60.0


def sample(
    at: float,
    engine: EngineReading | None = None,
    host: HostReading | None = None,
    *,
    service: ServiceReading | None = None,
    canary: Check | None = None,
    deaths: int = 0,
) -> Sample:
    return Sample(
        at=at,
        wall=1.7e9 + at,
        engine=engine,
        service=service or ServiceReading(),
        host=host or HostReading(),
        canary=canary,
        engine_deaths_total=deaths,
    )


def fed(
    detector: Detector, seconds: float, make: Callable[[float], Sample], start: float = 0.0, every: float = 10.0
) -> Verdict:
    """The verdict at the end of a stretch of time; `make` gets the time and gives the sample."""
    at = start
    verdict = detector.update(make(at))
    while at + every <= start + seconds:
        at += every
        verdict = detector.update(make(at))
    return verdict

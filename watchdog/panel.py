"""One of each detector over the same samples, and when they must begin anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from ..config import Shedding
from .detectors.canary import CanaryDetector
from .detectors.crashes import CrashesDetector
from .detectors.descriptors import DescriptorsDetector
from .detectors.disk import DiskDetector
from .detectors.errors import ErrorsDetector
from .detectors.fragmentation import FLOOR_BYTES, FragmentationDetector
from .detectors.leak import LeakDetector
from .detectors.pressure import PressureDetector
from .detectors.resources import ResourcesDetector
from .detectors.slowdown import SlowdownDetector
from .detectors.stall import StallDetector
from .detectors.swap import SwapDetector
from .detectors.thermal import ThermalDetector
from .samples import EngineReading, Sample
from .verdicts import Detector, Verdict


@dataclass(frozen=True)
class Sensitivity:
    """`speed` makes time pass faster for the detectors: at 60, their minutes are seconds. It is 1 but in tests."""

    speed: float = 1.0
    pool_floor_bytes: float = FLOOR_BYTES
    shedding: Shedding = field(default_factory=Shedding)


class Panel:
    """Every detector; its verdicts are in the order of their names' declaration."""

    def __init__(self, sensitivity: Sensitivity | None = None) -> None:
        self._sensitivity = sensitivity or Sensitivity()
        self._at = float("-inf")
        self._epoch: int | None = None
        self._weights_bytes: int | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._of_incarnation: list[Detector] = [make() for make in self._makers()]
        self._of_machine: list[Detector] = [
            PressureDetector(self._sensitivity.shedding),
            SwapDetector(),
            ThermalDetector(),
            StallDetector(),
            SlowdownDetector(),
            ErrorsDetector(),
            CrashesDetector(),
            DescriptorsDetector(),
            DiskDetector(),
            CanaryDetector(),
        ]

    def _makers(self) -> list[Callable[[], Detector]]:
        floor_bytes = self._sensitivity.pool_floor_bytes
        return [LeakDetector, lambda: FragmentationDetector(floor_bytes), ResourcesDetector]

    def update(self, sample: Sample) -> tuple[Verdict, ...]:
        """One verdict a detector. Time that goes back belongs to another watchdog: everything begins anew."""
        if self._sensitivity.speed != 1.0:
            sample = msgspec.structs.replace(sample, at=sample.at * self._sensitivity.speed)
        if sample.at < self._at:
            self._begin_anew()
        self._at = sample.at
        if sample.engine is not None and self._is_another(sample.engine):
            self._of_incarnation = [make() for make in self._makers()]
        return tuple(detector.update(sample) for detector in (*self._of_incarnation, *self._of_machine))

    def _is_another(self, engine: EngineReading) -> bool:
        """Whether what was learned about the engine is of no use: another process, or another model in it."""
        weights_bytes = self._weights_bytes if engine.weights_bytes is None else engine.weights_bytes
        known = self._epoch is not None
        changed = engine.epoch != self._epoch or (self._weights_bytes or weights_bytes) != weights_bytes
        self._epoch, self._weights_bytes = engine.epoch, weights_bytes
        return known and changed

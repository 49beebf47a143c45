"""NVIDIA GPUs, through NVML where `nvidia-ml-py` is installed: whether they throttle for heat, and at which clock.

The engine computes on them, so their clock is the one that counts. Whatever NVML cannot say is None.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from ..samples import HostReading
from .sensors import HostSensor

HEAVY_LEVEL = 2
HOT = 0x20 | 0x40
"""nvmlClocksEventReasonSwThermalSlowdown and nvmlClocksEventReasonHwThermalSlowdown (nvml.h)."""
SM_CLOCK = 1
"""NVML_CLOCK_SM."""

T = TypeVar("T")


def driver() -> Any | None:
    """The module, ready to be asked; None without it or without a GPU."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:
        # No module, no driver, or one that is not for the other: each has an error of its own.
        return None
    return nvml


class WithGpus:
    """The machine's own reading, and that of its GPUs in it."""

    def __init__(self, host: HostSensor, nvml: Any) -> None:
        self._host = host
        self._nvml = nvml
        self._gpus = self._asked(self._handles) or []

    def read(self) -> HostReading:
        host = self._host.read()
        hot = self._highest(lambda gpu: bool(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu) & HOT))
        clock = self._highest(self._clock_ratio)
        return msgspec.structs.replace(
            host,
            thermal_level=host.thermal_level if hot is None else max(host.thermal_level or 0, HEAVY_LEVEL * hot),
            clock_ratio=host.clock_ratio if clock is None else clock,
        )

    def _handles(self) -> list[Any]:
        return [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(self._nvml.nvmlDeviceGetCount())]

    def _clock_ratio(self, gpu: Any) -> float:
        now, most = (
            self._nvml.nvmlDeviceGetClockInfo(gpu, SM_CLOCK),
            self._nvml.nvmlDeviceGetMaxClockInfo(gpu, SM_CLOCK),
        )
        return min(1.0, float(now / most))

    def _highest(self, read: Callable[[Any], float]) -> float | None:
        values = [self._asked(partial(read, gpu)) for gpu in self._gpus]
        return max((value for value in values if value is not None), default=None)

    def _asked(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (self._nvml.NVMLError, ArithmeticError):
            return None

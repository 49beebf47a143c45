"""What NVML says, by a module that says what the real one would on such a machine."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.watchdog.samples import HostReading
from stoker.watchdog.sensors.nvidia import WithGpus, driver

HOST = HostReading(memory_bytes=64, thermal_level=1, clock_ratio=0.3)


class NvmlError(Exception):
    """Not supported, lost, or no permission."""


class Host:
    def read(self) -> HostReading:
        return HOST


def nvml(*gpus: dict[str, Any]) -> Any:
    """GPUs by their reasons to throttle, their clocks and their highest clocks; what is missing is not supported."""

    def asked(name: str) -> Any:
        def ask(gpu: dict[str, Any], *_: object) -> Any:
            if name not in gpu:
                raise NvmlError(name)
            return gpu[name]

        return ask

    return SimpleNamespace(
        NVMLError=NvmlError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(gpus),
        nvmlDeviceGetHandleByIndex=lambda index: gpus[index],
        nvmlDeviceGetCurrentClocksThrottleReasons=asked("reasons"),
        nvmlDeviceGetClockInfo=asked("clock"),
        nvmlDeviceGetMaxClockInfo=asked("most"),
    )


def test_a_gpu_that_slows_down_for_heat_is_heavy_and_its_clock_is_the_one_that_counts() -> None:
    cool = {"reasons": 0x1, "clock": 500, "most": 2000}
    hot = {"reasons": 0x40 | 0x8, "clock": 1500, "most": 2000}
    reading = WithGpus(Host(), nvml(cool, hot)).read()
    assert (reading.thermal_level, reading.clock_ratio, reading.memory_bytes) == (2, 0.75, 64)


def test_a_gpu_that_is_at_its_power_limit_is_not_hot() -> None:
    reading = WithGpus(Host(), nvml({"reasons": 0x4, "clock": 1900, "most": 2000})).read()
    assert (reading.thermal_level, reading.clock_ratio) == (1, 0.95)


@pytest.mark.parametrize("gpu", [{}, {"clock": 5, "most": 0}])
def test_what_a_gpu_does_not_tell_leaves_the_machines_own_word(gpu: dict[str, Any]) -> None:
    assert WithGpus(Host(), nvml(gpu)).read() == HOST


def test_a_driver_that_has_gone_leaves_the_machines_own_word() -> None:
    module = nvml()

    def gone() -> int:
        raise NvmlError

    module.nvmlDeviceGetCount = gone
    assert WithGpus(Host(), module).read() == HOST


def test_without_the_module_or_without_a_driver_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert driver() is None
    module: Any = nvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert driver() is module

    def fail() -> None:
        raise NvmlError

    monkeypatch.setattr(module, "nvmlInit", fail)
    assert driver() is None

"""What the doctor asks of the machine itself, as one set of questions, so that a recorded machine can answer them."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from ...config import Sensors
from ...engine.blas import missing_warning
from ..sensors.sensors import HostSensor, host_sensor

DEADLINE_S = 5.0
PROBE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class System:
    """One machine. `platform` is as `sys.platform`, `machine` as `platform.machine()`."""

    platform: str
    machine: str
    said: Callable[..., str | None]
    """The standard output of a command; None where there is no such command, or no answer in time."""
    host_sensor: Callable[[Path, Sensors], HostSensor]
    openblas_missing: Callable[[], str | None]
    """Why the engine will be slow without OpenBLAS and what to do; None where it is there or not needed."""
    write_s: Callable[[Path], float]
    """Seconds until a megabyte in that folder is on the disk. Raises `OSError`."""
    on_battery: Callable[[], bool]


def said(*command: str) -> str | None:
    """See `System.said`."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None


def write_s(folder: Path) -> float:
    """See `System.write_s`; the file is removed again."""
    probe = folder / f".doctor-{os.getpid()}"
    began = time.monotonic()
    try:
        with probe.open("wb") as file:
            file.write(os.urandom(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        return time.monotonic() - began
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def on_battery() -> bool:
    """Whether nothing but a battery feeds it."""
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return battery is not None and not battery.power_plugged


THIS_SYSTEM = System(
    platform=sys.platform,
    machine=platform.machine(),
    said=said,
    host_sensor=host_sensor,
    openblas_missing=missing_warning,
    write_s=write_s,
    on_battery=on_battery,
)

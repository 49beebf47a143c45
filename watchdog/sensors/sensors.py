"""The interfaces of sensors, and the ones that this machine has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

import msgspec

from ...config import Sensors
from ..samples import HostReading


class ProcessReading(msgspec.Struct, frozen=True):
    """What the system says about one process."""

    footprint_bytes: int | None = None
    """What it costs the machine: physical footprint on macOS, PSS and swap on Linux."""
    swapped_bytes: int | None = None
    """The part of it that is in swap."""
    fds: int | None = None
    fds_limit: int | None = None


class HostSensor(Protocol):
    """The machine."""

    def read(self) -> HostReading:
        """One reading, in a few milliseconds at most."""
        ...


class ProcessSensor(Protocol):
    """Any process of this user's."""

    def read(self, pid: int) -> ProcessReading:
        """One reading; where the process has ended, nothing is known."""
        ...


def host_sensor(home: Path, where: Sensors) -> HostSensor:
    """The one for this machine; `home` is the folder whose disk is watched."""
    if sys.platform == "darwin":
        from .macos import MacHost, system

        return MacHost(system(), home)
    from .linux import LinuxHost
    from .nvidia import WithGpus, driver

    host = LinuxHost(home, where.proc, where.sys)
    gpus = driver()
    return host if gpus is None else WithGpus(host, gpus)


def process_sensor(where: Sensors) -> ProcessSensor:
    """The one for this machine."""
    if sys.platform == "darwin":
        from .macos import MacProcesses, system

        return MacProcesses(system())
    from .linux import LinuxProcesses

    return LinuxProcesses(where.proc)

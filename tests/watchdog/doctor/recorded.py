"""Machines that answer the doctor from recordings, and change as a command or a person would change them."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from pathlib import Path

import msgspec

from stoker.config import Sensors
from stoker.engine import blas
from stoker.watchdog.doctor.system import System
from stoker.watchdog.samples import HostReading
from stoker.watchdog.sensors.linux import LinuxHost
from stoker.watchdog.sensors.macos import MacHost
from stoker.watchdog.sensors.sensors import HostSensor
from tests.watchdog.sensors.trees import MEMINFO, Tree

GB = 10**9
GIB = 1024**3
PAGE = 16384
OPENBLAS = Path("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0")
PMSET = """System-wide power settings:
Currently in use:
 standby              1
 Sleep On Power Button 1
 hibernatefile        /var/vm/sleepimage
 powernap             1
 disksleep            {disksleep}
 sleep                {sleep} (sleep prevented by powerd, coreaudiod)
 displaysleep         10
 tcpkeepalive         1
"""


class Machine(ABC):
    """What both kinds have. The disk holds `disk_bytes`, of which the files of the home take their part."""

    platform: str
    machine: str

    def __init__(self) -> None:
        self.disk_bytes = 500 * GB
        self.disk_error: OSError | None = None
        self.disk_is_slow = False
        self.on_battery = False

    def system(self) -> System:
        return System(
            platform=self.platform,
            machine=self.machine,
            said=self.said,
            host_sensor=lambda home, where: _WithDisk(self, home, self.sensor(home, where)),
            openblas_missing=self.openblas_missing,
            write_s=self.write_s,
            on_battery=lambda: self.on_battery,
        )

    def write_s(self, folder: Path) -> float:
        if self.disk_error is not None:
            raise self.disk_error
        return 7.0 if self.disk_is_slow else 0.01

    @abstractmethod
    def sensor(self, home: Path, where: Sensors) -> HostSensor: ...

    @abstractmethod
    def openblas_missing(self) -> str | None: ...

    @abstractmethod
    def said(self, *command: str) -> str | None: ...

    @abstractmethod
    def obey(self, *command: str) -> None:
        """What a command of the system's own would do to it."""


class _WithDisk:
    """A sensor on whose machine the home's files take room."""

    def __init__(self, machine: Machine, home: Path, sensor: HostSensor) -> None:
        self._machine = machine
        self._home = home
        self._sensor = sensor

    def read(self) -> HostReading:
        used = sum(file.stat().st_size for file in self._home.rglob("*") if file.is_file())
        return msgspec.structs.replace(self._sensor.read(), disk_free_bytes=self._machine.disk_bytes - used)


class LinuxBox(Machine):
    """A workstation of 32 GB without a GPU, as files in `tree`."""

    platform, machine = "linux", "x86_64"

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self.tree = tree
        self.files = {OPENBLAS}
        tree.machine()
        self.memory()
        self.heat(60.0)
        self.clock(3_900_000)

    def memory(self, available_bytes: int = 20 * GB, swap_used_bytes: int = 0) -> None:
        self.tree.swap(swap_used_bytes, 8 * GIB)
        meminfo = (self.tree.proc / "meminfo").read_text()
        available = next(line for line in MEMINFO.splitlines() if line.startswith("MemAvailable"))
        self.tree.put(
            self.tree.proc / "meminfo", meminfo.replace(available, f"MemAvailable: {available_bytes // 1024} kB")
        )

    def heat(self, celsius: float) -> None:
        self.tree.zone(0, celsius, passive=80.0, hot=95.0)

    def clock(self, khz: int) -> None:
        self.tree.cpu(0, throttled=0, package_throttled=0, khz=khz)

    def sensor(self, home: Path, where: Sensors) -> HostSensor:
        return LinuxHost(home, where.proc, where.sys)

    def _blas(self) -> blas.System:
        return blas.System(self.platform, self.machine, self.files.__contains__, lambda name: None)

    def openblas_missing(self) -> str | None:
        return blas.missing_warning(self._blas())

    def begin_engine(self, pid: int) -> None:
        """It maps what is preloaded into it."""
        preloaded = blas.preload_environment({}, self._blas()).get("LD_PRELOAD", "")
        self.tree.put(self.tree.proc / str(pid) / "maps", f"7f1c-7f2d r-xp 00000000 fe:01 1234 {preloaded}\n")

    def said(self, *command: str) -> str | None:
        return None

    def obey(self, *command: str) -> None:
        assert command == ("apt-get", "install", "libopenblas0-pthread")
        self.files.add(OPENBLAS)


class Mac(Machine):
    """A Mac of 64 GB with Apple silicon. It is asked as libSystem is."""

    platform, machine = "darwin", "arm64"

    def __init__(self) -> None:
        super().__init__()
        self.power = {"disksleep": 10, "sleep": 0}
        self.wired_limit_mb = 0
        self.swap_used_bytes = 0
        self.thermal_level = 0

    def sensor(self, home: Path, where: Sensors) -> HostSensor:
        return MacHost(self, home)

    def openblas_missing(self) -> str | None:
        return None

    def write_s(self, folder: Path) -> float:
        return super().write_s(folder) if self.power["disksleep"] else 0.01

    def sysctl(self, name: bytes) -> bytes:
        total, used = 8 * GIB, self.swap_used_bytes
        return {
            b"vm.swapusage": struct.pack("<QQQIi", total, total - used, used, PAGE, 1),
            b"hw.pagesize": struct.pack("<q", PAGE),
            b"hw.memsize": struct.pack("<Q", 64 * GIB),
            b"kern.memorystatus_vm_pressure_level": struct.pack("<i", 1),
        }[name]

    def vm_statistics(self) -> bytes:
        return struct.pack("<4I", 1_000_000, 500_000, 1_000_000, 300_000) + bytes(136)

    def notification_state(self, name: bytes) -> int | None:
        return self.thermal_level

    def rusage(self, pid: int) -> bytes:
        return b""

    def said(self, *command: str) -> str | None:
        if command == ("/usr/bin/pmset", "-g"):
            return PMSET.format(**self.power)
        assert command == ("/usr/sbin/sysctl", "iogpu.wired_limit_mb")
        return f"iogpu.wired_limit_mb: {self.wired_limit_mb}\n"

    def obey(self, *command: str) -> None:
        match command:
            case ("sudo", "pmset", "-a", name, value):
                assert name in self.power
                self.power[name] = int(value)
            case ("sudo", "sysctl", setting):
                name, value = setting.split("=")
                assert name == "iogpu.wired_limit_mb"
                self.wired_limit_mb = int(value)
            case _:
                raise AssertionError(command)

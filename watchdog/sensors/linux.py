"""Linux: memory, pressure, swap, heat and processes from `/proc` and `/sys`, whose roots are parameters."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from ..samples import HostReading
from .sensors import ProcessReading
from .text import content, disk, kilobytes, number, numbers

PROC = Path("/proc")
SYS = Path("/sys")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MAX_CELSIUS = 150
"""Some drivers report thousands of degrees for a zone that is switched off."""
LEVEL_OF_TRIP = {"passive": 1, "hot": 2, "critical": 3}
"""The kernel slows down at a passive trip point, asks for help at a hot one, and switches off at a critical one."""

T = TypeVar("T", int, float)


class LinuxHost:
    """The machine."""

    def __init__(self, home: Path, proc: Path = PROC, sys: Path = SYS) -> None:
        self._home = home
        self._proc = proc
        self._sys = sys

    def read(self) -> HostReading:
        memory = numbers(content(self._proc / "meminfo"))
        counters = numbers(content(self._proc / "vmstat"))
        pressure = content(self._proc / "pressure" / "memory")
        swap, free = kilobytes(memory, "SwapTotal"), kilobytes(memory, "SwapFree")
        size, room = disk(self._home)
        return HostReading(
            memory_bytes=kilobytes(memory, "MemTotal"),
            available_bytes=kilobytes(memory, "MemAvailable"),
            pressure_some_share=waiting_share(pressure, "some"),
            pressure_full_share=waiting_share(pressure, "full"),
            swap_bytes=swap,
            swap_used_bytes=None if swap is None or free is None else max(0, swap - free),
            swap_in_bytes_total=_pages(counters, "pswpin"),
            swap_out_bytes_total=_pages(counters, "pswpout"),
            thermal_level=_highest(map(zone_level, (self._sys / "class" / "thermal").glob("thermal_zone*"))),
            throttles_total=self._throttles(),
            clock_ratio=self._clock_ratio(),
            disk_bytes=size,
            disk_free_bytes=room,
        )

    def _throttles(self) -> int | None:
        """Of cores and packages; every core of a package shows the package's own count."""
        counts = [folder / "thermal_throttle" for folder in self._cpus()]
        cores = _known(number(content(folder / "core_throttle_count")) for folder in counts)
        packages = _known(number(content(folder / "package_throttle_count")) for folder in counts)
        if not cores and not packages:
            return None
        return sum(cores) + max(packages, default=0)

    def _clock_ratio(self) -> float | None:
        """Of the fastest core: the others may rest."""
        return _highest(map(_ratio_of, (folder / "cpufreq" for folder in self._cpus())))

    def _cpus(self) -> Iterator[Path]:
        return (self._sys / "devices" / "system" / "cpu").glob("cpu[0-9]*")


class LinuxProcesses:
    """Processes of this user's."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc

    def read(self, pid: int) -> ProcessReading:
        folder = self._proc / str(pid)
        memory = numbers(content(folder / "smaps_rollup"))
        return ProcessReading(
            footprint_bytes=kilobytes(memory, "Pss", "SwapPss"),
            swapped_bytes=kilobytes(memory, "SwapPss"),
            fds=_entries(folder / "fd"),
            fds_limit=_open_files_limit(content(folder / "limits")),
        )


def waiting_share(pressure: str, who: str) -> float | None:
    """`avg10` of a PSI file's line, as a share (Documentation/accounting/psi.rst)."""
    found = re.search(rf"^{who} avg10=([0-9]{{1,3}}(?:\.[0-9]{{1,4}})?) ", pressure, re.MULTILINE | re.ASCII)
    share = None if found is None else float(found[1]) / 100
    return share if share is not None and share <= 1 else None


def zone_level(zone: Path) -> int | None:
    """The severest trip point that a thermal zone has reached, as a level; None where it has none to reach."""
    temperature = number(content(zone / "temp"))
    if temperature is None or temperature > MAX_CELSIUS * 1000:
        return None
    level = None
    for point in zone.glob("trip_point_*_type"):
        reached = LEVEL_OF_TRIP.get(content(point).strip())
        bound = number(content(point.with_name(point.name.replace("_type", "_temp"))))
        if reached is not None and bound:
            level = max(level or 0, reached if temperature >= bound else 0)
    return level


def _ratio_of(cpufreq: Path) -> float | None:
    now, most = number(content(cpufreq / "scaling_cur_freq")), number(content(cpufreq / "cpuinfo_max_freq"))
    return min(1.0, now / most) if now and most else None


def _pages(counters: dict[str, int], name: str) -> int | None:
    return counters[name] * PAGE_BYTES if name in counters else None


def _entries(folder: Path) -> int | None:
    try:
        return len(os.listdir(folder))  # noqa: PTH208  # no path for each of thousands of descriptors
    except OSError:
        return None


def _open_files_limit(limits: str) -> int | None:
    found = re.search(r"^Max open files +([0-9]+) ", limits, re.MULTILINE | re.ASCII)
    return None if found is None else number(found[1])


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _highest(values: Iterable[T | None]) -> T | None:
    return max((value for value in values if value is not None), default=None)

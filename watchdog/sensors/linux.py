"""Linux: memory, pressure, swap and processes from `/proc` and `/sys`, whose roots are parameters."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..samples import HostReading
from .linux_heat import Heat, heat
from .sensors import ProcessReading
from .text import content, disk, kilobytes, number, numbers

PROC = Path("/proc")
SYS = Path("/sys")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
HEAT_EVERY = 5
"""A machine with many cores has hundreds of files about their heat, and heat is slow."""


class LinuxHost:
    """The machine."""

    def __init__(self, home: Path, proc: Path = PROC, sys: Path = SYS) -> None:
        self._home = home
        self._proc = proc
        self._sys = sys
        self._reads = 0
        self._heat = Heat()

    def read(self) -> HostReading:
        if self._reads % HEAT_EVERY == 0:
            self._heat = heat(self._sys)
        self._reads += 1
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
            thermal_level=self._heat.level,
            throttles_total=self._heat.throttles,
            clock_ratio=self._heat.clock_ratio,
            disk_bytes=size,
            disk_free_bytes=room,
        )


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

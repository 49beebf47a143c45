"""macOS: memory, pressure, swap, heat and processes through libSystem, without root.

The layouts are those of Apple's open headers, named at each parser. `System` is the only part that touches the
library; everything that it hands out is bytes, so that recorded ones drive the parsers anywhere.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import resource
import struct
from pathlib import Path
from typing import Protocol

import psutil

from ..samples import HostReading
from .sensors import ProcessReading
from .text import disk

THERMAL_NOTIFICATION = b"com.apple.system.thermalpressurelevel"
_RUSAGE_INFO_V0 = 0
_RUSAGE_INFO_V0_BYTES = 96
_HOST_VM_INFO64 = 4
_VM_STATISTICS64_WORDS = 38
_NOTIFY_STATUS_OK = 0
_PRESSURE_LEVELS = {1, 2, 4}
_MAX_THERMAL_LEVEL = 4


class System(Protocol):
    """libSystem's answers; empty bytes and None for what it refuses."""

    def sysctl(self, name: bytes) -> bytes:
        """A value of sysctl(3)."""
        ...

    def rusage(self, pid: int) -> bytes:
        """A process's `struct rusage_info_v0`."""
        ...

    def vm_statistics(self) -> bytes:
        """The machine's `struct vm_statistics64`."""
        ...

    def notification_state(self, name: bytes) -> int | None:
        """The state of a notification of notify(3)."""
        ...


class MacHost:
    """The machine."""

    def __init__(self, system: System, home: Path) -> None:
        self._system = system
        self._home = home

    def read(self) -> HostReading:
        swap, swap_used = swap_usage(self._system.sysctl(b"vm.swapusage"))
        page = unsigned(self._system.sysctl(b"hw.pagesize"))
        memory = vm_statistics(self._system.vm_statistics(), page)
        level = unsigned(self._system.sysctl(b"kern.memorystatus_vm_pressure_level"))
        heat = self._system.notification_state(THERMAL_NOTIFICATION)
        size, room = disk(self._home)
        return HostReading(
            memory_bytes=unsigned(self._system.sysctl(b"hw.memsize")),
            available_bytes=memory.available,
            wired_bytes=memory.wired,
            pressure_level=level if level in _PRESSURE_LEVELS else None,
            swap_bytes=swap,
            swap_used_bytes=swap_used,
            swap_in_bytes_total=memory.swapped_in,
            swap_out_bytes_total=memory.swapped_out,
            thermal_level=heat if heat is not None and 0 <= heat <= _MAX_THERMAL_LEVEL else None,
            disk_bytes=size,
            disk_free_bytes=room,
        )


class MacProcesses:
    """Processes of this user's."""

    def __init__(self, system: System) -> None:
        self._system = system

    def read(self, pid: int) -> ProcessReading:
        footprint = physical_footprint(self._system.rusage(pid))
        try:
            fds = psutil.Process(pid).num_fds()
        except psutil.Error:
            fds = None
        # A child's own limit cannot be asked for; it inherits ours.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return ProcessReading(
            footprint_bytes=footprint, fds=fds, fds_limit=None if limit == resource.RLIM_INFINITY else limit
        )


class VmStatistics:
    """What is wanted of `struct vm_statistics64`, in bytes."""

    def __init__(self, available: int | None, wired: int | None, swapped_in: int | None, swapped_out: int | None):
        self.available = available
        self.wired = wired
        self.swapped_in = swapped_in
        self.swapped_out = swapped_out


def unsigned(value: bytes) -> int | None:
    """An integer of sysctl(3), of 4 or 8 bytes."""
    return int.from_bytes(value, "little") if len(value) in {4, 8} else None


def swap_usage(value: bytes) -> tuple[int | None, int | None]:
    """Total and used bytes of `struct xsw_usage` (sys/sysctl.h): total, available, used, page size, encrypted."""
    if len(value) < struct.calcsize("<QQQ"):
        return None, None
    total, _, used = struct.unpack_from("<QQQ", value)
    return (total, used) if used <= total < 2**63 else (None, None)


def physical_footprint(value: bytes) -> int | None:
    """`ri_phys_footprint` of `struct rusage_info_v0` (sys/resource.h): a UUID and seven 64-bit words are before it."""
    offset = 16 + 7 * 8
    if len(value) < offset + 8:
        return None
    (footprint,) = struct.unpack_from("<Q", value, offset)
    return int(footprint) if 0 < footprint < 2**63 else None


def vm_statistics(value: bytes, page: int | None) -> VmStatistics:
    """`struct vm_statistics64` (mach/vm_statistics.h): counts of pages, of `page` bytes each."""
    if len(value) < _VM_STATISTICS64_WORDS * 4 or not page:
        return VmStatistics(None, None, None, None)
    free, _, inactive, wired = struct.unpack_from("<4I", value, 0)
    swapped_in, swapped_out = struct.unpack_from("<2Q", value, 112)
    bounded = [pages * page if pages * page < 2**63 else None for pages in (swapped_in, swapped_out)]
    return VmStatistics((free + inactive) * page, wired * page, *bounded)


def system() -> System:
    """The real library. macOS only."""
    return _LibSystem(ctypes.CDLL(ctypes.util.find_library("System"), use_errno=True))


class _LibSystem:
    """libSystem through ctypes; every call leaves its buffer to us."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.mach_host_self.restype = ctypes.c_uint32
        # Each call to it makes one more right to the same port.
        self._host = ctypes.c_uint32(library.mach_host_self())
        self._tokens: dict[bytes, ctypes.c_int] = {}

    def sysctl(self, name: bytes) -> bytes:
        buffer = ctypes.create_string_buffer(64)
        size = ctypes.c_size_t(len(buffer))
        failed = self._library.sysctlbyname(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
        return b"" if failed else buffer.raw[: size.value]

    def rusage(self, pid: int) -> bytes:
        buffer = ctypes.create_string_buffer(_RUSAGE_INFO_V0_BYTES)
        failed = self._library.proc_pid_rusage(ctypes.c_int(pid), ctypes.c_int(_RUSAGE_INFO_V0), buffer)
        return b"" if failed else buffer.raw

    def vm_statistics(self) -> bytes:
        buffer = ctypes.create_string_buffer(_VM_STATISTICS64_WORDS * 4)
        words = ctypes.c_uint32(_VM_STATISTICS64_WORDS)
        failed = self._library.host_statistics64(self._host, ctypes.c_int(_HOST_VM_INFO64), buffer, ctypes.byref(words))
        return b"" if failed else buffer.raw

    def notification_state(self, name: bytes) -> int | None:
        if (token := self._tokens.get(name)) is None:
            token = ctypes.c_int()
            if self._library.notify_register_check(name, ctypes.byref(token)) != _NOTIFY_STATUS_OK:
                return None
            self._tokens[name] = token
        state = ctypes.c_uint64()
        if self._library.notify_get_state(token, ctypes.byref(state)) != _NOTIFY_STATUS_OK:
            return None
        return state.value

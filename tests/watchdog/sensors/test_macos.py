"""macOS readings, from byte strings laid out as Apple's headers say; the library itself is not here to be asked."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.watchdog.samples import HostReading
from stoker.watchdog.sensors.macos import (
    THERMAL_NOTIFICATION,
    MacHost,
    MacProcesses,
    physical_footprint,
    swap_usage,
    unsigned,
    vm_statistics,
)
from stoker.watchdog.sensors.sensors import ProcessReading

GIB = 1024**3
PAGE = 16384
# `vm.swapusage` of a Mac with 2 GiB of swap, 1.25 GiB of it used, pages of 16 KiB, encrypted.
SWAP = struct.pack("<QQQIi", 2 * GIB, 3 * GIB // 4, 5 * GIB // 4, PAGE, 1)
FOOTPRINT = 9_876_543_210
RUSAGE = bytes(range(16)) + struct.pack("<10Q", 11, 12, 13, 14, 15, 16, 17, FOOTPRINT, 18, 19)
VM = (
    struct.pack("<4I", 1_000, 200_000, 50_000, 300_000)
    + struct.pack("<9Q", *range(9))
    + struct.pack("<2I", 5, 6)
    + struct.pack("<4Q", 7, 8, 4_242, 9_999)
    + struct.pack("<4I", 1, 2, 3, 4)
    + struct.pack("<Q", 77)
)


class Recorded:
    """The answers of one Mac."""

    def __init__(self, heat: int | None = 2, level: int = 4) -> None:
        self._heat = heat
        self._sysctls = {
            b"vm.swapusage": SWAP,
            b"hw.pagesize": struct.pack("<q", PAGE),
            b"hw.memsize": struct.pack("<Q", 64 * GIB),
            b"kern.memorystatus_vm_pressure_level": struct.pack("<i", level),
        }

    def sysctl(self, name: bytes) -> bytes:
        return self._sysctls[name]

    def rusage(self, pid: int) -> bytes:
        return RUSAGE

    def vm_statistics(self) -> bytes:
        return VM

    def notification_state(self, name: bytes) -> int | None:
        assert name == THERMAL_NOTIFICATION
        return self._heat


class Silent:
    """A Mac that refuses everything."""

    def sysctl(self, name: bytes) -> bytes:
        return b""

    def rusage(self, pid: int) -> bytes:
        return b""

    def vm_statistics(self) -> bytes:
        return b""

    def notification_state(self, name: bytes) -> int | None:
        return None


class Absurd(Silent):
    """A Mac that answers everything with the same bytes."""

    def __init__(self, value: bytes, state: int) -> None:
        self._value = value
        self._state = state

    def sysctl(self, name: bytes) -> bytes:
        return self._value

    def rusage(self, pid: int) -> bytes:
        return self._value

    def vm_statistics(self) -> bytes:
        return self._value

    def notification_state(self, name: bytes) -> int | None:
        return self._state


def test_a_mac_is_read() -> None:
    assert MacHost(Recorded(), Path("/nowhere")).read() == HostReading(
        memory_bytes=64 * GIB,
        available_bytes=51_000 * PAGE,
        wired_bytes=300_000 * PAGE,
        pressure_level=4,
        swap_bytes=2 * GIB,
        swap_used_bytes=5 * GIB // 4,
        swap_in_bytes_total=4_242 * PAGE,
        swap_out_bytes_total=9_999 * PAGE,
        thermal_level=2,
    )


def test_a_process_costs_its_physical_footprint() -> None:
    reading = MacProcesses(Recorded()).read(os.getpid())
    assert reading.footprint_bytes == FOOTPRINT
    assert reading.swapped_bytes is None
    assert reading.fds


def test_a_mac_that_refuses_everything_says_nothing() -> None:
    assert MacHost(Silent(), Path("/nowhere")).read() == HostReading()
    assert MacProcesses(Silent()).read(0).footprint_bytes is None


def test_levels_that_there_are_not_are_not_believed() -> None:
    found = MacHost(Recorded(heat=17, level=3), Path("/nowhere")).read()
    assert (found.thermal_level, found.pressure_level) == (None, None)


def test_statistics_without_a_page_size_mean_nothing() -> None:
    assert vm_statistics(VM, None).wired is None


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_no_bytes_raise_or_make_an_impossible_number(value: bytes, state: int) -> None:
    system = Absurd(value, state)
    readings: list[HostReading | ProcessReading] = [
        MacHost(system, Path("/nowhere")).read(),
        MacProcesses(system).read(os.getpid()),
    ]
    for reading in readings:
        for name, found in msgspec.structs.asdict(reading).items():
            assert found is None or found >= 0, name


@given(st.integers(0, 199))
def test_what_is_cut_short_is_not_read(length: int) -> None:
    assert swap_usage(SWAP[: min(length, 23)]) == (None, None)
    assert physical_footprint(RUSAGE[: min(length, 79)]) is None
    assert vm_statistics(VM[: min(length, 151)], PAGE).wired is None
    assert unsigned(b"\x01" * (length % 4)) is None

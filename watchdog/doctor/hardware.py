"""The machine below everything: memory, swap, disk, heat, and what puts it to sleep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..samples import HostReading
from .findings import START_AGAIN, Finding, Layer, Level
from .system import System

_finding = partial(Finding, Layer.HARDWARE)

FREE_MEMORY_SHARE = 0.1
FULL_SWAP_SHARE = 0.8
MUCH_SWAP_BYTES = 2e9
LITTLE_DISK_BYTES = 10e9
NO_DISK_BYTES = 1e9
SLOW_WRITE_S = 1.0
HOT = 2
"""Of the levels of `com.apple.system.thermalpressurelevel`: 0 nominal, 1 moderate, 2 heavy, 3 trapping, 4 sleeping."""
SLOW_CLOCK = 0.6
ROOM_REMEDY = (
    "make room: `stoker models list` shows what could go by `stoker models remove NAME`, "
    f"or lower `engine.prefix_cache_disk_bytes` and {START_AGAIN}"
)


@dataclass(frozen=True)
class HardwareReading:
    """What the sensors say about the host, and what only a doctor asks; None for what this machine does not tell."""

    host: HostReading
    disk_write_s: float | None
    """Seconds until a megabyte was on the disk."""
    disk_error: str | None
    sleeps_after_min: int | None
    on_battery: bool


def read_hardware(system: System, home: Path, host: HostReading) -> HardwareReading:
    """A small file is written under `home` and removed, to see how long the disk takes."""
    write_s, disk_error = _timed_write(system, home)
    return HardwareReading(
        host=host,
        disk_write_s=write_s,
        disk_error=disk_error,
        sleeps_after_min=_sleeps_after(system) if system.platform == "darwin" else None,
        on_battery=system.on_battery(),
    )


def judge_hardware(reading: HardwareReading) -> list[Finding]:
    """Everything that was read; what this machine does not tell is left out."""
    host = reading.host
    findings = [_judge_disk(reading)]
    if host.memory_bytes is not None and host.available_bytes is not None:
        findings.append(_judge_memory(host.available_bytes, host.memory_bytes))
    if host.swap_bytes is not None and host.swap_used_bytes is not None:
        findings.append(_judge_swap(host.swap_used_bytes, host.swap_bytes))
    if host.thermal_level is not None:
        findings.append(_judge_heat(host.thermal_level))
    if host.clock_ratio is not None:
        findings.append(_judge_clock(host.clock_ratio))
    if reading.sleeps_after_min is not None or reading.on_battery:
        findings.append(_judge_sleep(reading))
    return findings


def sleep_minutes(pmset: str) -> int | None:
    """After how many idle minutes a Mac sleeps, from `pmset -g`; 0 is never."""
    match = re.search(r"^\s*sleep\s+(\d+)", pmset, re.MULTILINE)
    return int(match[1]) if match else None


def _judge_memory(available: int, total: int) -> Finding:
    measured = f"{available / 1e9:.1f} of {total / 1e9:.1f} GB are available"
    if available < FREE_MEMORY_SHARE * total:
        remedy = f"close other programs, or lower `engine.prefix_cache_ram_bytes` and {START_AGAIN}"
        return _finding("memory", Level.WARNING, measured, remedy)
    return _finding("memory", Level.OK, measured)


def _judge_swap(used: int, total: int) -> Finding:
    measured = f"{used / 1e9:.1f} of {total / 1e9:.1f} GB are used"
    remedy = (
        "something needs more memory than there is: close other programs, "
        f"or set `engine.model` to a smaller model and {START_AGAIN}"
    )
    if total and used > FULL_SWAP_SHARE * total:
        return _finding("swap", Level.FAILURE, f"{measured}: nearly full", remedy)
    if used > MUCH_SWAP_BYTES:
        return _finding("swap", Level.WARNING, measured, remedy)
    return _finding("swap", Level.OK, measured if total else "there is none")


def _judge_disk(reading: HardwareReading) -> Finding:
    if reading.disk_error is not None:
        return _finding("disk", Level.FAILURE, reading.disk_error, "mend that, or move $STOKER_HOME to another disk")
    free = reading.host.disk_free_bytes
    if free is None or reading.disk_write_s is None:
        return _finding("disk", Level.SKIPPED, "the home does not exist yet")
    measured = f"{free / 1e9:.1f} GB free, 1 MB written in {reading.disk_write_s * 1000:.0f} ms"
    if free < NO_DISK_BYTES:
        return _finding("disk", Level.FAILURE, measured, ROOM_REMEDY)
    if reading.disk_write_s > SLOW_WRITE_S:
        remedy = (
            "a disk that sleeps or is very slow: keep it awake (on a Mac: `sudo pmset -a disksleep 0`), "
            "or move $STOKER_HOME to another one"
        )
        return _finding("disk", Level.WARNING, measured, remedy)
    if free < LITTLE_DISK_BYTES:
        return _finding("disk", Level.WARNING, measured, ROOM_REMEDY)
    return _finding("disk", Level.OK, measured)


def _judge_heat(level: int) -> Finding:
    if level == 0:
        return _finding("heat", Level.OK, "nominal")
    remedy = "the machine slows itself down: give it air and a cooler place, or less to do"
    if level < HOT:
        remedy = "give it air and a cooler place before it slows itself down"
    return _finding("heat", Level.FAILURE if level >= HOT else Level.WARNING, f"thermal level {level} of 4", remedy)


def _judge_clock(ratio: float) -> Finding:
    measured = f"a busy core runs at {ratio:.0%} of its highest clock"
    if ratio < SLOW_CLOCK:
        remedy = "heat, a battery or a power-saving governor holds it down: cool it, plug it in, or choose full power"
        return _finding("clock", Level.WARNING, measured, remedy)
    return _finding("clock", Level.OK, measured)


def _judge_sleep(reading: HardwareReading) -> Finding:
    if reading.sleeps_after_min:
        measured = f"the machine sleeps after {reading.sleeps_after_min} idle minutes"
        return _finding("sleep", Level.WARNING, measured, "keep it awake: `sudo pmset -a sleep 0`")
    if reading.on_battery:
        return _finding("sleep", Level.WARNING, "it runs on its battery", "plug it in")
    return _finding("sleep", Level.OK, "never")


def _timed_write(system: System, home: Path) -> tuple[float | None, str | None]:
    """An existing home only: nothing is made for a look."""
    if not home.is_dir():
        return None, None
    try:
        return system.write_s(home), None
    except OSError as error:
        return None, f"cannot write to {home}: {error.strerror}"


def _sleeps_after(system: System) -> int | None:
    settings = system.said("/usr/bin/pmset", "-g")
    return None if settings is None else sleep_minutes(settings)

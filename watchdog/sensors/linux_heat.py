"""Linux: heat, and what the processors do about it, from `/sys`, whose root is a parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .text import content, number

MAX_CELSIUS = 150
"""Some drivers report thousands of degrees for a zone that is switched off."""
LEVEL_OF_TRIP = {"passive": 1, "hot": 2, "critical": 3}
"""The kernel slows down at a passive trip point, asks for help at a hot one, and switches off at a critical one."""

T = TypeVar("T", int, float)


@dataclass(frozen=True)
class Heat:
    """None for what the machine does not show; virtual ones show nothing."""

    level: int | None = None
    throttles: int | None = None
    clock_ratio: float | None = None


def heat(sys: Path) -> Heat:
    """One reading of every zone and core."""
    cpus = list((sys / "devices" / "system" / "cpu").glob("cpu[0-9]*"))
    zones = (sys / "class" / "thermal").glob("thermal_zone*")
    return Heat(
        level=_highest(map(zone_level, zones)),
        throttles=_throttles([cpu / "thermal_throttle" for cpu in cpus]),
        # Of the fastest core: the others may rest.
        clock_ratio=_highest(map(_ratio_of, [cpu / "cpufreq" for cpu in cpus])),
    )


def _throttles(folders: list[Path]) -> int | None:
    """Of cores and packages; every core of a package shows the package's own count."""
    cores = _known(number(content(folder / "core_throttle_count")) for folder in folders)
    packages = _known(number(content(folder / "package_throttle_count")) for folder in folders)
    if not cores and not packages:
        return None
    return sum(cores) + max(packages, default=0)


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


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _highest(values: Iterable[T | None]) -> T | None:
    return max((value for value in values if value is not None), default=None)

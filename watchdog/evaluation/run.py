"""One generated run: columns of numbers a minute, the samples that they make, and what is true of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..samples import Check, EngineReading, HostReading, Sample, ServiceReading
from ..verdicts import DetectorName

Reading = TypeVar("Reading", EngineReading, HostReading, ServiceReading)
Column = NDArray[np.float64]

STEP_S = 60.0
HOURS = 72
CANARY_S = 300.0
UNANSWERED_S = 30.0
WALL_AT_START = 1_790_000_000.0


@dataclass(frozen=True)
class Truth:
    """What is wrong, since when, and until when it must be found. `deadline_s` None: finding it is not required.

    Before `began_s` nothing is wrong and whatever fires is false; at `onset_s` it is bad enough to be found.
    """

    detector: DetectorName | None = None
    began_s: float = float("inf")
    onset_s: float = float("inf")
    deadline_s: float | None = None


@dataclass
class Run:
    """`columns` by field of the readings; NaN is None. `at` is in seconds from the start."""

    kind: str
    seed: int
    at: Column
    engine: dict[str, Column]
    host: dict[str, Column]
    service: dict[str, Column]
    truth: Truth = field(default_factory=Truth)
    wall_jump_s: Column | None = None

    def until(self, seconds: float) -> None:
        """Forget what comes after."""
        self.keep(self.at <= seconds)

    def keep(self, rows: NDArray[np.bool_]) -> None:
        self.at = self.at[rows]
        self.wall_jump_s = None if self.wall_jump_s is None else self.wall_jump_s[rows]
        for columns in (self.engine, self.host, self.service):
            for name in columns:
                columns[name] = columns[name][rows]

    def samples(self) -> Iterator[Sample]:
        """What the sensors would have read."""
        jumps = self.wall_jump_s if self.wall_jump_s is not None else np.zeros_like(self.at)
        canaries = _values("canary_s", self.service.pop("canary_s"))
        engines = (reading if reading.epoch is not None else None for reading in _readings(EngineReading, self.engine))
        hosts = _readings(HostReading, self.host)
        services = _readings(ServiceReading, self.service)
        rows = zip(self.at.tolist(), jumps.tolist(), canaries, engines, hosts, services, strict=True)
        for at, jump, duration_s, engine, host, service in rows:
            check = Check(int(at // CANARY_S), duration_s is not None, duration_s or UNANSWERED_S)
            yield Sample(at, WALL_AT_START + at + jump, engine, service, host, check)


def _readings(kind: type[Reading], columns: dict[str, Column]) -> Iterator[Reading]:
    names = list(columns)
    values = [_values(name, column) for name, column in columns.items()]
    for row in zip(*values, strict=True):
        yield kind(**dict(zip(names, row, strict=True)))


def _values(name: str, column: Column) -> list[float | None]:
    """NaN becomes None, and what counts something becomes whole."""
    absent = np.isnan(column)
    is_real = name.endswith(("_s", "_share", "_ratio", "batch", "_per_s"))
    values = (column if is_real else np.where(absent, 0, column).astype(np.int64)).astype(object)
    values[absent] = None
    listed: list[float | None] = values.tolist()
    return listed

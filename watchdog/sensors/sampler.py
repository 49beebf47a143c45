"""All sensors as one sample: the machine and the engine's word each time, what costs more only every few samples.

What costs more may also hang: the kernel sums up the pages of a process that is being swapped out when it can. A sample
waits a moment for it and goes on with what was read before, because it is then that load must be shed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from ...engine.protocol import Heartbeat
from ..samples import Check, HostReading, Sample, ServiceReading
from .engine import EngineSensor
from .sensors import HostSensor, ProcessReading, ProcessSensor
from .service import Vitals

COSTLY_EVERY = 10
"""Summing up the pages of a process with many takes the kernel milliseconds; asking the service costs it some too."""
PATIENCE_S = 0.5

_UNKNOWN = ProcessReading()


class AsksService(Protocol):
    """The service's own word."""

    async def read(self) -> Vitals | None:
        """None when it does not answer in time."""
        ...


@dataclass(frozen=True)
class Situation:
    """What the watchdog itself knows at the moment of a sample. Pids are None while there is no process."""

    engine_epoch: int
    engine_pid: int | None
    engine_up_s: float | None
    step_bound_s: float | None
    heartbeat: Heartbeat | None
    service_pid: int | None
    engine_deaths: int
    canary: Check | None


class Sampler:
    """Asked once a period."""

    def __init__(
        self,
        host: HostSensor,
        processes: ProcessSensor,
        service: AsksService,
        own_pid: int,
        situation: Callable[[], Situation],
    ) -> None:
        self._host = host
        self._processes = processes
        self._service = service
        self._own_pid = own_pid
        self._situation = situation
        self._engine = EngineSensor()
        self._count = 0
        self._read: dict[int, ProcessReading] = {}
        self._vitals: Vitals | None = None
        self._reading: asyncio.Task[None] | None = None

    async def sample(self) -> Sample:
        """One sample of everything, now."""
        due = self._count % COSTLY_EVERY == 0
        self._count += 1
        if due and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read_what_is_costly())
            await asyncio.wait({self._reading}, timeout=PATIENCE_S)
        return self._joined(self._situation(), await asyncio.to_thread(self._host.read))

    async def close(self) -> None:
        """Wait for nothing that is still being read."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read_what_is_costly(self) -> None:
        now = self._situation()
        self._vitals = await self._service.read()
        pids = [pid for pid in (self._own_pid, now.engine_pid, now.service_pid) if pid is not None]
        self._read = await asyncio.to_thread(lambda: {pid: self._processes.read(pid) for pid in pids})

    def _joined(self, now: Situation, host: HostReading) -> Sample:
        engine = None
        if now.engine_pid is not None:
            process = self._of(now.engine_pid)
            engine = self._engine.read(now.engine_epoch, now.heartbeat, now.engine_up_s, now.step_bound_s, process)
        return Sample(
            at=time.monotonic(),
            wall=time.time(),
            engine=engine,
            service=self._service_reading(now.service_pid),
            host=msgspec.structs.replace(host, swap_others_bytes=self._swapped_by_others(host)),
            canary=now.canary,
            engine_deaths_total=now.engine_deaths,
        )

    def _of(self, pid: int | None) -> ProcessReading:
        return _UNKNOWN if pid is None else self._read.get(pid, _UNKNOWN)

    def _service_reading(self, pid: int | None) -> ServiceReading:
        process, vitals = self._of(pid), self._vitals
        return ServiceReading(
            pid=pid,
            footprint_bytes=process.footprint_bytes,
            loop_lag_s=None if vitals is None else vitals.loop_lag_s,
            requests_total=None if vitals is None else vitals.requests_total,
            errors_total=None if vitals is None else vitals.errors_total,
            fds=process.fds,
            fds_limit=process.fds_limit,
        )

    def _swapped_by_others(self, host: HostReading) -> int | None:
        """What is in swap and none of ours; None where the system does not say whose it is."""
        ours = [reading.swapped_bytes for reading in self._read.values() if reading.swapped_bytes is not None]
        if host.swap_used_bytes is None or not ours:
            return None
        return max(0, host.swap_used_bytes - sum(ours))

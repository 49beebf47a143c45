"""A sample of everything, while some of it takes its time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stoker.engine.protocol import Heartbeat, Memory, Phase
from stoker.watchdog.samples import HostReading
from stoker.watchdog.sensors import sampler as module
from stoker.watchdog.sensors.sampler import COSTLY_EVERY, Sampler, Situation
from stoker.watchdog.sensors.sensors import ProcessReading
from stoker.watchdog.sensors.service import Vitals

ENGINE_PID, OWN_PID = 11, 13
MEMORY = Memory(active=990, limit=1000)


class Host:
    def read(self) -> HostReading:
        return HostReading(memory_bytes=64)


class Service:
    """One that answers when it is let."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def read(self) -> Vitals:
        await self.may_answer.wait()
        return Vitals(0.001, 10, 0)


class Kernel:
    """One that sums up a process's pages when it is let."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    def read(self, pid: int) -> ProcessReading:
        self.may_answer.wait()
        return ProcessReading(footprint_bytes=pid)


def sampler(kernel: Kernel, service: Service) -> Sampler:
    beat = Heartbeat(1, ENGINE_PID, Phase.READY, 5, 0.01, 2, 0, MEMORY)
    situation = Situation(1, ENGINE_PID, 3600.0, 10.0, beat, None, 0, None)
    return Sampler(Host(), kernel, service, OWN_PID, lambda: situation)


async def test_what_is_read_at_once_is_in_the_first_sample() -> None:
    kernel, service = Kernel(), Service()
    kernel.may_answer.set()
    service.may_answer.set()
    sample = await sampler(kernel, service).sample()
    assert sample.engine is not None
    assert (sample.engine.footprint_bytes, sample.service.requests_total) == (ENGINE_PID, 10)


async def test_a_kernel_and_a_service_that_hang_hold_up_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    kernel, service = Kernel(), Service()
    sampling = sampler(kernel, service)
    for _ in range(2 * COSTLY_EVERY):
        sample = await sampling.sample()
        assert sample.engine is not None
        assert (sample.engine.active_bytes, sample.engine.footprint_bytes) == (990, None)
    kernel.may_answer.set()
    service.may_answer.set()
    while sample.service.requests_total is None or sample.engine is None or sample.engine.footprint_bytes is None:
        sample = await sampling.sample()
    assert (sample.engine.footprint_bytes, sample.service.requests_total) == (ENGINE_PID, 10)


async def test_nothing_waits_at_the_end_for_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    sampling = sampler(Kernel(), Service())
    await sampling.sample()
    await sampling.close()

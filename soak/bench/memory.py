"""How much memory the target takes: of its processes as the system charges them, or by its own word on `/metrics`."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from ...config import Sensors
from ...service.metrics import ENGINE_MEMORY, PREFIX
from ...watchdog.metrics import ENGINE_RESTARTS
from ...watchdog.sensors.sensors import ProcessSensor, process_sensor

_RESIDENT = "process_resident_memory_bytes"
_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True)
class Scrape:
    """What a target's metrics say, as far as they say it."""

    memory_bytes: int | None = None
    engine_restarts: int | None = None


def of_processes(pid: int, sensor: ProcessSensor | None = None) -> int | None:
    """A process and all that descend from it; None when it has ended."""
    sensor = sensor or process_sensor(Sensors())
    try:
        root = psutil.Process(pid)
        readings = [sensor.read(each.pid).footprint_bytes for each in (root, *root.children(recursive=True))]
    except psutil.NoSuchProcess:
        return None
    known = [reading for reading in readings if reading is not None]
    return sum(known) if known else None


def parsed(page: str) -> Scrape:
    """Of Stoker its engine's footprint, of others what Prometheus's client libraries export."""
    resident: float | None = None
    restarts: float | None = None
    footprint: float | None = None
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == PREFIX + ENGINE_MEMORY.name and sample.labels["kind"] == "footprint":
                footprint = sample.value
            elif sample.name == _RESIDENT:
                resident = sample.value
            elif sample.name == ENGINE_RESTARTS:
                restarts = (restarts or 0) + sample.value
    whole = resident if footprint is None else footprint
    return Scrape(None if whole is None else int(whole), None if restarts is None else int(restarts))


async def scraped(http: aiohttp.ClientSession, url: str) -> Scrape:
    """An empty one where nobody answers, or not in Prometheus's format."""
    try:
        async with http.get(url, timeout=_TIMEOUT) as response:
            response.raise_for_status()
            return parsed(await response.text())
    except (aiohttp.ClientError, TimeoutError, ValueError, OSError):
        return Scrape()

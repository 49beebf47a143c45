"""Memory in use, read once a second, and what is turned away for it (`shedding` decides, `shed_level` acts)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import psutil

from ..config import Shedding
from ..engine.protocol import Heartbeat
from .shed_level import ShedLevel
from .shedding import NOTHING_SHED, Usage, decide

READ_PAUSE_S = 1.0


async def shed_under_pressure(heartbeat: Callable[[], Heartbeat | None], shed: ShedLevel, settings: Shedding) -> None:
    """Look, decide, act; ends only by cancellation. `heartbeat` is the engine's last one."""
    decision = NOTHING_SHED
    while True:
        decision = decide(decision, usage(heartbeat()), time.monotonic(), settings)
        shed.want("memory", decision.level, decision.reason)
        await asyncio.sleep(min(READ_PAUSE_S, settings.hold_s / 2))


def usage(heartbeat: Heartbeat | None) -> Usage:
    """The engine's memory against its limit; the machine's, when the engine knows no limit or is not there."""
    if heartbeat is not None:
        memory = heartbeat.memory
        if memory.active is not None and memory.limit:
            return Usage("the engine", memory.active, memory.limit)
    machine = psutil.virtual_memory()
    return Usage("the machine", machine.total - machine.available, machine.total)

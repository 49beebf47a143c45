"""Recorded machines through everything from sensor to shed level: heat and swap shed load, and it ends when they do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from stoker.config import Engine, Paths, Watchdog
from stoker.engine.protocol import Heartbeat, Memory, Phase
from stoker.watchdog import watch_metrics
from stoker.watchdog.decisions import Child
from stoker.watchdog.effects import Effects, Reach
from stoker.watchdog.observation import Observation, Parts
from stoker.watchdog.panel import Panel, Sensitivity
from stoker.watchdog.sensors.linux import LinuxHost, LinuxProcesses
from stoker.watchdog.sensors.sampler import Sampler, Situation
from stoker.watchdog.sensors.service import Vitals
from stoker.watchdog.watching import Records
from tests.alerts.receivers import nobody
from tests.watchdog.sensors.trees import Tree
from tests.watchdog.test_effects import Door, Pretence
from tests.watchdog.test_supervisor import LIVES, Script, supervised

SPEED = 2000.0
PERIOD_S = 0.002
DEADLINE_S = 30.0
ENGINE_PID, SERVICE_PID, OWN_PID = 11, 12, 13
MEMORY = Memory(active=2_000, weights=1_000, kv=500)


class Quiet:
    """A service that is well."""

    async def read(self) -> Vitals:
        return Vitals(0.001, 10, 0)


class Machine:
    """A recorded machine under observation; the test changes its files."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root)
        self.tree.machine()
        for pid in (ENGINE_PID, SERVICE_PID, OWN_PID):
            self.tree.process(pid)
        self.steps = 0
        self.door = Door()
        self.registry = CollectorRegistry()
        self.records = Records(Watchdog(detection_speed=SPEED), Paths(root), self.registry, nobody)

    def situation(self) -> Situation:
        self.steps += 1
        beat = Heartbeat(1, ENGINE_PID, Phase.READY, self.steps, 0.01, 2, 0, MEMORY)
        return Situation(1, ENGINE_PID, 3600.0, 10.0, beat, SERVICE_PID, 0, None)

    def swap_used(self, used_bytes: int) -> None:
        """All of it the engine's."""
        self.tree.put(
            self.tree.proc / str(ENGINE_PID) / "smaps_rollup", f"Pss: 1000 kB\nSwapPss: {used_bytes // 1024} kB\n"
        )
        path = self.tree.proc / "meminfo"
        lines = [line for line in path.read_text().splitlines() if not line.startswith("SwapFree")]
        self.tree.put(path, "\n".join([*lines, f"SwapFree: {8388608 - used_bytes // 1024} kB", ""]))

    @property
    def level(self) -> int:
        return self.door.wanted[-1][0] if self.door.wanted else 0

    async def until_level(self, level: int) -> None:
        while self.level != level:  # noqa: ASYNC110  # the door has no event
            await asyncio.sleep(PERIOD_S)

    async def run(self, act: object) -> None:
        """Observe while `act` runs."""
        async with supervised(Script(LIVES)) as supervisor, asyncio.timeout(DEADLINE_S):
            reach = Reach(Pretence(), {Child.ENGINE: supervisor, Child.SERVICE: supervisor}, self.door, Engine())
            records = self.records
            host = LinuxHost(self.tree.proc, self.tree.proc, self.tree.sys)
            parts = Parts(
                sampler=Sampler(host, LinuxProcesses(self.tree.proc), Quiet(), OWN_PID, self.situation),
                panel=Panel(Sensitivity(speed=SPEED)),
                effects=Effects(reach, records.journal.put, records.metrics.acted),
                incidents=records.incidents,
                journal=records.journal,
                history=records.history,
                metrics=records.metrics,
                canaries_under_way=lambda: 0,
            )
            observation = Observation(parts, PERIOD_S, SPEED)
            task = asyncio.create_task(observation.run())
            try:
                await act(self)  # type: ignore[operator]
            finally:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task


async def test_heat_sheds_load_until_it_is_over_and_restarts_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    async def heat(on: Machine) -> None:
        on.tree.zone(0, 60.0, passive=80.0, hot=95.0)
        await asyncio.sleep(20 * PERIOD_S)
        on.tree.put(on.tree.sys / "class" / "thermal" / "thermal_zone0" / "temp", "97000\n")
        await on.until_level(1)
        assert [incident.kind for incident in on.records.incidents.open] == ["thermal"]
        exported = generate_latest(on.registry).decode()
        assert f"{watch_metrics.THERMAL_LEVEL} 2.0" in exported
        assert f'{watch_metrics.DETECTOR_FIRING}{{detector="thermal"}} 1.0' in exported
        assert f'{watch_metrics.INCIDENT_OPEN}{{kind="thermal"}} 1.0' in exported
        on.tree.put(on.tree.sys / "class" / "thermal" / "thermal_zone0" / "temp", "60000\n")
        await on.until_level(0)
        while on.records.incidents.open:  # noqa: ASYNC110
            await asyncio.sleep(PERIOD_S)

    await machine.run(heat)
    exported = generate_latest(machine.registry).decode()
    assert "PlannedRestart" not in exported and "RestartNow" not in exported


async def test_swap_that_grows_and_is_ours_sheds_load_until_it_stops(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    async def grow(on: Machine) -> None:
        used = 1_000_000_000
        while on.level < 1:
            used = min(used + 10_000_000, 8_000_000_000)
            on.swap_used(used)
            await asyncio.sleep(PERIOD_S)
        assert "swap" in {incident.kind for incident in on.records.incidents.open}
        await on.until_level(0)

    await machine.run(grow)


async def test_a_machine_that_shows_nothing_exports_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    async def look(on: Machine) -> None:
        while watch_metrics.SWAP_USED not in generate_latest(on.registry).decode():  # noqa: ASYNC110
            await asyncio.sleep(PERIOD_S)
        exported = generate_latest(on.registry).decode()
        for absent in (watch_metrics.THERMAL_LEVEL, watch_metrics.CPU_FREQUENCY_RATIO, watch_metrics.MEMORY_EXHAUSTION):
            assert f"\n{absent} " not in exported

    await machine.run(look)

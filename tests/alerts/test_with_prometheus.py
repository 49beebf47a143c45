"""The committed rules and routes in a real Prometheus and Alertmanager: each fault of the real tree is told once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.alerts.faults import (
    LEAKING,
    ORDINARY,
    frozen_engine,
    kill_again_and_again,
    scraped_at,
    short_of_memory,
    under_load,
)
from tests.alerts.notifying import notifying, quicker_routes, quicker_rules
from tests.alerts.receivers import Receiver, receiving
from tests.e2e.conftest import ServeTree, serve_tree

__all__ = ["serve_tree"]

SPEED = 60.0


class Heard:
    """What a receiver of Alertmanager's hears of one alert from now on."""

    def __init__(self, receiver: Receiver, alert: str) -> None:
        self._receiver = receiver
        self._before = len(receiver.got)
        self._alert = alert

    @property
    def told(self) -> list[tuple[str, str]]:
        """Where it was told, and what."""
        labels = {"alertname": self._alert}
        return [
            (got.where, got.status) for got in self._receiver.got[self._before :] if got.body["groupLabels"] == labels
        ]

    async def until(self, *wanted: tuple[str, str]) -> None:
        while len(self.told) < len(wanted):
            self._receiver.changed.clear()
            await self._receiver.changed.wait()
        assert self.told == list(wanted)


@pytest.mark.timeout(180)
async def test_each_fault_is_told_once_with_the_right_severity_and_its_end(
    serve_tree: ServeTree, tmp_path: Path
) -> None:
    async with asyncio.timeout(170), receiving() as receiver:
        leaking = await asyncio.to_thread(serve_tree, LEAKING, tmp_path / "leaking")
        tree = await asyncio.to_thread(serve_tree, ORDINARY)
        hooks = f"http://{urlsplit(receiver.url).netloc}"
        leak, loop = Heard(receiver, "StokerLeak"), Heard(receiver, "StokerRestartLoop")
        shed = Heard(receiver, "StokerSheddingForLong")
        with notifying(tmp_path, [*scraped_at(tree), *scraped_at(leaking)], hooks, SPEED):
            async with under_load(leaking) as load:
                await kill_again_and_again(tree)
                await loop.until(("page", "firing"), ("page", "resolved"))
                await leak.until(("ticket", "firing"), ("ticket", "resolved"))
            assert load.failures == []
            await asyncio.gather(short_of_memory(tree), shed.until(("ticket", "firing"), ("ticket", "resolved")))
            # Canaries may well have failed in the faults before.
            canary = Heard(receiver, "StokerCanaryFailing")
            with frozen_engine(tree):
                await canary.until(("page", "firing"))
            await canary.until(("page", "firing"), ("page", "resolved"))
            for heard in (leak, loop, shed):
                assert len(heard.told) == 2
    assert {got.headers["authorization"] for got in receiver.got} == {"Bearer t0ken"}
    assert {got.where for got in receiver.got if got.body["groupLabels"].get("slo") == "72h"} <= {"run"}


def test_being_quicker_changes_times_alone() -> None:
    assert quicker_rules("x[10m] y[5m:15s] z:rate1h for: 20s", 60) == "x[10000ms] y[5000ms:1s] z:rate1h for: 333ms"
    assert quicker_routes("group_wait: 10s\nrepeat_interval: 1h", 10) == "group_wait: 1000ms\nrepeat_interval: 1h"

"""One cause tells once: the committed routes in a real Alertmanager, which is told of a cause and its effects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.alerts.notifying import alertmanager
from tests.alerts.receivers import receiving

SPEED = 60.0
GROUPED_S = 0.5
"""Longer than Alertmanager waits at that speed; that something is not sent has no event."""


@pytest.mark.parametrize(
    ("cause", "effects"),
    [
        ("StokerDown", ["StokerEngineDown", "StokerRestartLoop", "StokerErrorBudgetBurn", "StokerSwapGrowing"]),
        ("StokerRestartLoop", ["StokerEngineDown", "StokerCanaryFailing", "StokerErrorBudgetBurn", "StokerStalled"]),
        ("StokerThrottled", ["StokerSlowFirstToken", "StokerSheddingForLong"]),
    ],
)
async def test_one_cause_tells_once(tmp_path: Path, cause: str, effects: list[str]) -> None:
    async with receiving() as receiver:
        with alertmanager(tmp_path, f"http://{urlsplit(receiver.url).netloc}", SPEED) as address:
            async with aiohttp.ClientSession(f"http://{address}") as http:
                for names in ([cause], [*effects, "StokerDeadMansSwitch"]):
                    alerts = [{"labels": {"alertname": name, "severity": "critical"}} for name in names]
                    async with http.post("/api/v2/alerts", json=alerts) as response:
                        assert response.status == 200
                    await receiver.until(len(receiver.got) + 1)
                    await asyncio.sleep(GROUPED_S)
    assert {got.body["groupLabels"]["alertname"] for got in receiver.got} == {cause, "StokerDeadMansSwitch"}

"""A budget that burns fast burns slowly too: the committed routes in a real Alertmanager tell the worse of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from tests.alerts.notifying import alertmanager
from tests.alerts.receivers import receiving

SPEED = 60.0
GROUPED_S = 0.5
"""Longer than Alertmanager waits at that speed; that something is not sent has no event."""


async def test_a_budget_that_burns_at_two_speeds_is_told_once(tmp_path: Path) -> None:
    burn = {"alertname": "StokerErrorBudgetBurn", "slo": "30d"}
    async with receiving() as receiver:
        with alertmanager(tmp_path, f"http://{urlsplit(receiver.url).netloc}", SPEED) as address:
            async with aiohttp.ClientSession(f"http://{address}") as http:
                for severity, other in (("critical", []), ("warning", [{"alertname": "StokerDeadMansSwitch"}])):
                    alerts = [{"labels": labels} for labels in ({**burn, "severity": severity}, *other)]
                    async with http.post("/api/v2/alerts", json=alerts) as response:
                        assert response.status == 200
                    await receiver.until(len(receiver.got) + 1)
                    await asyncio.sleep(GROUPED_S)
    assert [got.where for got in receiver.got] == ["page", "alive"]

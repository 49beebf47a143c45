"""What the watchdog alone may do: canaries without a key and around the prefix cache, and asking for vitals."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stoker.config import Server
from stoker.engine.protocol import Priority
from stoker.service.fairness import Caller
from stoker.service.vitals import Vitals
from tests.service.rig import ADMIN_TOKEN, Rig, ask

ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


async def status_of(rig: Rig, headers: dict[str, str]) -> int:
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{rig.url}/v1/chat/completions", json=ask(max_tokens=5), headers=headers) as response,
    ):
        return response.status


async def vitals(rig: Rig, headers: dict[str, str]) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{rig.url}/internal/vitals", headers=headers) as response,
    ):
        return response.status, await response.json()


async def test_a_canary_needs_no_key_of_its_own(make_rig: Callable[..., Rig], tmp_path: Path) -> None:
    keys = tmp_path / "api.keys"
    keys.write_text(f"alice {sha256(b'sesame').hexdigest()}\n")
    rig = make_rig(server=Server(api_keys=keys))
    await rig.start()
    assert await status_of(rig, {}) == 401
    assert await status_of(rig, ADMIN) == 200


async def test_the_service_says_how_it_does_to_the_watchdog_alone(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    assert (await vitals(rig, {}))[0] == 401
    before = (await vitals(rig, ADMIN))[1]["requests_total"]
    assert await status_of(rig, {}) == 200
    assert await status_of(rig, ADMIN) == 200
    status, told = await vitals(rig, ADMIN)
    # A canary is no request of a user's; the one without a token to this path was.
    assert (status, told["requests_total"], told["errors_total"]) == (200, before + 1, 0)
    assert told["loop_lag_s"] >= 0


@pytest.mark.parametrize(("status", "errors"), [(200, 0), (400, 0), (429, 0), (503, 0), (529, 0), (500, 1), (502, 1)])
def test_only_what_failed_is_an_error(status: int, errors: int) -> None:
    counted = Vitals()
    counted.answered(status)
    assert (counted.told()["requests_total"], counted.told()["errors_total"]) == (1, errors)


def test_everybody_else_goes_through_the_cache() -> None:
    assert Caller("alice", Priority.INTERACTIVE).use_prefix_cache

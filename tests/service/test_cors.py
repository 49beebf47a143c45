"""Browsers: pages of other origins are kept out, unless they are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import aiohttp

from stoker.config import Server
from tests.service.rig import CHAT, Rig, ask
from tests.service.test_auth import keys

ORIGIN = "https://chat.example.org"
ASKING = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key"}


async def test_nobody_is_let_in_by_default(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    async with rig.post(ask(max_tokens=1), headers={"Origin": ORIGIN}) as response:
        assert "Access-Control-Allow-Origin" not in response.headers
    async with aiohttp.ClientSession() as http, http.options(rig.url + CHAT, headers=ASKING) as response:
        assert response.status == 405


async def test_a_page_that_is_named_may_ask(make_rig: Callable[..., Rig], tmp_path: Path) -> None:
    rig = make_rig(server=Server(cors_origins=(ORIGIN,), api_keys=keys(tmp_path)))
    await rig.start_service()
    async with aiohttp.ClientSession() as http:
        async with http.options(rig.url + CHAT, headers=ASKING) as response:
            assert response.status == 204, "a browser shows no key before it knows that it may"
            assert response.headers["Access-Control-Allow-Origin"] == ORIGIN
            assert response.headers["Access-Control-Allow-Headers"] == "x-api-key"
        async with http.options(rig.url + CHAT, headers=ASKING | {"Origin": "https://evil.example"}) as response:
            assert "Access-Control-Allow-Origin" not in response.headers
    async with rig.post(ask(), headers={"Origin": ORIGIN}) as response:
        assert (response.status, response.headers["Access-Control-Allow-Origin"]) == (401, ORIGIN)

"""The status page over HTTP: its files, its stream, and who may see and do what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stoker.config import Server, Telemetry
from stoker.service.pages.files import FOLDER
from tests.service.rig import ADMIN_TOKEN, DEADLINE_S, Rig, ask, events, text_of

ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
MakeRig = Callable[..., Rig]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as session:
        yield session


@pytest.fixture
async def guarded(make_rig: MakeRig, tmp_path: Path) -> Rig:
    """A service that asks its clients for keys."""
    keys = tmp_path / "api.keys"
    keys.write_text(f"alice {sha256(b'sesame').hexdigest()}\n")
    rig = make_rig(server=Server(api_keys=keys), telemetry=Telemetry(capture_content=True))
    await rig.start()
    return rig


async def news(response: aiohttp.ClientResponse, kind: str) -> Any:
    """The next event of this kind."""
    async with asyncio.timeout(DEADLINE_S):
        async for line in response.content:
            if line == f"event: {kind}\n".encode():
                return json.loads((await response.content.readline()).removeprefix(b"data: "))
    raise AssertionError("the stream ended")


@asynccontextmanager
async def page_of(rig: Rig, http: aiohttp.ClientSession) -> AsyncIterator[aiohttp.ClientResponse]:
    async with http.get(f"{rig.url}/page/events") as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        yield response


async def test_the_page_is_there_with_everything_that_it_names(make_rig: MakeRig, http: aiohttp.ClientSession) -> None:
    rig = make_rig()
    await rig.start_service()
    async with http.get(f"{rig.url}/") as response:
        assert (response.status, response.content_type) == (200, "text/html")
        assert "script-src 'self'" in response.headers["Content-Security-Policy"]
        page = await response.text()
    for file in FOLDER.iterdir():
        named = page if file.name in page else "".join(each.read_text() for each in FOLDER.glob("*.js"))
        assert file.name in named or file.name == "index.html", f"nobody uses {file.name}"
        async with http.get(f"{rig.url}/page/{file.name}") as response:
            assert response.status == 200
            etag = response.headers["ETag"]
        async with http.get(f"{rig.url}/page/{file.name}", headers={"If-None-Match": etag}) as response:
            assert (response.status, await response.read()) == (304, b"")
    for wrong in ("/page/other.js", "/page/..%2froutes.py", "/page/__init__.py"):
        async with http.get(rig.url + wrong) as response:
            assert response.status == 404


async def test_the_page_takes_nothing_from_elsewhere() -> None:
    for file in FOLDER.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
        assert "style=" not in text, "the policy forbids it"


async def test_what_happens_is_told_as_it_happens(make_rig: MakeRig, http: aiohttp.ClientSession) -> None:
    rig = make_rig()
    await rig.start()
    async with page_of(rig, http) as page:
        live = await news(page, "live")
        assert (live["problem"], live["model"], live["first_token"]) == (None, "tiny", None)
        async with rig.post(ask(stream=True, max_tokens=20)) as response:
            await text_of(events(response))
        while not (rows := await news(page, "requests")):
            pass
        (row,) = rows
        assert (row["what"], row["status"], row["output_tokens"]) == ("POST /v1/chat/completions", 200, 20)
        await rig.kill_engine()
        while (live := await news(page, "live"))["problem"] is None:
            pass
        assert (live["problem"]["code"], live["engine"]) == ("engine_unavailable", None)
        async with http.get(f"{rig.url}/page/requests/{row['id']}") as response:
            found = await response.json()
        assert "stoker.decode" in [span["name"] for span in found["spans"]]


async def test_looking_is_neither_logged_nor_counted(make_rig: MakeRig, http: aiohttp.ClientSession) -> None:
    rig = make_rig()
    await rig.start()
    async with page_of(rig, http) as page, http.get(rig.url) as response:
        await news(page, "live")
        assert response.status == 200
    _, metrics = await rig.get("/metrics")
    assert 'endpoint="/page' not in metrics
    assert 'endpoint="/"' not in metrics


async def test_a_stranger_sees_the_empty_page_and_nothing_else(guarded: Rig, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{guarded.url}/") as response:
        assert response.status == 200
    for headers in ({}, {"Authorization": "Bearer sesame"}, {"Authorization": "Bearer guess"}):
        for path in ("/page/events", "/page/requests/last"):
            async with http.get(guarded.url + path, headers=headers) as response:
                assert response.status == 401
                assert "tiny" not in await response.text()


async def test_the_operator_sees_everything_but_what_was_said(guarded: Rig, http: aiohttp.ClientSession) -> None:
    async with guarded.post(ask("a secret"), headers={"x-api-key": "sesame"}) as response:
        await response.read()
    async with http.get(f"{guarded.url}/page/events", headers=ADMIN) as response:
        assert response.status == 200
        (row,) = await news(response, "requests")
    async with http.get(f"{guarded.url}/page/requests/{row['id']}", headers=ADMIN) as response:
        assert response.status == 200
        assert "a secret" not in await response.text()


@pytest.mark.parametrize("action", ["engines/default/restart", "engines/default/drain", "silence"])
async def test_nobody_acts_without_the_token(make_rig: MakeRig, http: aiohttp.ClientSession, action: str) -> None:
    rig = make_rig()
    await rig.start_service()
    path = f"{rig.url}/page/{action}"
    # What a page of another origin can make a browser send: a form, with no header of its choice.
    async with http.post(path, data={"a": "b"}, headers={"Origin": "https://evil.example"}) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (401, "invalid_admin_token")
    async with http.post(path, headers=ADMIN) as response:
        # It would, if there were a watchdog here.
        assert (response.status, (await response.json())["error"]["code"]) == (503, "watchdog_unavailable")


async def test_an_open_page_does_not_hold_up_the_end(make_rig: MakeRig, http: aiohttp.ClientSession) -> None:
    rig = make_rig()
    process = await rig.start_service()
    async with page_of(rig, http) as page:
        await news(page, "live")
        process.terminate()
        async with asyncio.timeout(DEADLINE_S):
            assert await process.wait() == 0
            assert (await page.content.read()).count(b"event: ") < 20

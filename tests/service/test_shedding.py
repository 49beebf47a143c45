"""The watchdog tells the service how much to turn away, and clients are told when to come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from stoker.config import Server, Simulated
from tests.service.rig import ADMIN_TOKEN, Rig, ask


async def shed(rig: Rig, body: Any, token: str = ADMIN_TOKEN) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as http,
        http.put(f"{rig.url}/internal/shed", json=body, headers=headers) as response,
    ):
        return response.status, await response.json()


async def answer(rig: Rig, body: dict[str, Any], **headers: str) -> tuple[int, str | None]:
    """Status and `Retry-After`."""
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{rig.url}/v1/chat/completions", json=body, headers=headers) as response,
    ):
        await response.read()
        return response.status, response.headers.get("Retry-After")


async def test_load_is_shed_while_the_watchdog_says_so_and_no_longer(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    assert await shed(rig, {"level": 3, "reason": "memory is short"}) == (
        200,
        {"level": 3, "reason": "memory is short"},
    )
    status, error = await rig.error(ask())
    assert (status, error["code"]) == (503, "overloaded")
    assert "memory is short" in error["message"]
    status, wait = await answer(rig, ask())
    assert status == 503
    assert 1 <= int(wait or 0) <= 60
    assert (await rig.get("/health/ready"))[0] == 503
    assert await rig.metric('stoker_requests_shed_total{reason="overloaded"}') == 2
    await shed(rig, {"level": 0, "reason": "it is over"})
    assert (await answer(rig, ask()))[0] == 200


async def test_at_level_1_batch_requests_and_long_prompts_are_turned_away(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(server=Server(shed_long_prompt_tokens=300))
    await rig.start()
    await shed(rig, {"level": 1, "reason": "memory is short"})
    assert (await answer(rig, ask(), **{"x-stoker-priority": "batch"}))[0] == 503
    assert (await answer(rig, ask("long " * 100)))[0] == 503
    assert (await answer(rig, ask()))[0] == 200


async def test_a_priority_that_there_is_not_is_refused_by_name(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    assert (await answer(rig, ask(), **{"x-stoker-priority": "royal"}))[0] == 422


async def test_only_the_holder_of_the_token_sets_the_level(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    await rig.start()
    assert (await shed(rig, {"level": 3, "reason": "mischief"}, token="guessed"))[0] == 401
    assert (await answer(rig, ask()))[0] == 200


@pytest.mark.parametrize("body", [{"level": 4, "reason": "x"}, {"level": 1}, {"level": 1, "reason": "x", "y": 1}, []])
async def test_a_level_that_there_is_not_is_refused(make_rig: Callable[..., Rig], body: Any) -> None:
    rig = make_rig()
    await rig.start_service()
    assert (await shed(rig, body))[0] == 422


async def test_a_client_with_nothing_in_a_full_queue_takes_the_place_of_one_with_much(
    make_rig: Callable[..., Rig],
) -> None:
    rig = make_rig(server=Server(max_queue=6), simulated=Simulated(step_s=0.01), max_running=1, max_waiting=1)
    await rig.start()
    greedy = [asyncio.create_task(answer(rig, ask(f"{number}"), Authorization="Bearer greedy")) for number in range(6)]
    await rig.until_metric("stoker_requests_waiting", 5)
    modest = asyncio.create_task(answer(rig, ask("Hello", max_tokens=3), Authorization="Bearer modest"))
    done, rest = await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = done
    status, wait = refused.result()
    assert status == 429
    assert wait is not None
    # It goes before what the greedy one has waiting in the service.
    assert (await modest)[0] == 200
    assert sum(task.done() for task in greedy) < len(greedy)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)

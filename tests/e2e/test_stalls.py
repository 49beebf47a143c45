"""What lives but does not work is found and replaced, and clients see no more than a pause."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator

import aiohttp
import pytest

from stoker.watchdog.status import EngineStatus
from tests.e2e.chatting import Chat, ask, chat_body
from tests.e2e.conftest import ServeTree
from tests.e2e.running import SIMULATED, RunningTree, get

STALLS_EARLY = SIMULATED + "stall_after_s = 1.0\n"
SLOW_STEPS = "[engine.simulated]\nstep_s = 0.02\n"
BODY = chat_body("Tell me more.", seed=7, max_tokens=120, stream=True)


@contextlib.asynccontextmanager
async def streaming(tree: RunningTree) -> AsyncIterator[tuple[Chat, asyncio.Task[str]]]:
    """A stream that has begun."""
    chat = Chat(tree.api, BODY)
    async with aiohttp.ClientSession() as http:
        task = asyncio.create_task(chat.run(http))
        await chat.until(10)
        yield chat, task
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until_replaced(tree: RunningTree) -> EngineStatus:
    epoch = tree.engine().epoch
    return await asyncio.to_thread(tree.until_ready, epoch + 1)


def stop(pid: int | None) -> None:
    assert pid is not None, "the child is not running"
    os.kill(pid, signal.SIGSTOP)


def reason_of(engine: EngineStatus) -> str:
    assert engine.last_restart is not None
    return engine.last_restart.reason


async def test_a_frozen_engine_is_replaced_and_its_stream_goes_on(serve_tree: ServeTree) -> None:
    tree = serve_tree(STALLS_EARLY + SLOW_STEPS)
    async with streaming(tree) as (_, task):
        stop(tree.engine().pid)
        engine = await until_replaced(tree)
        assert "stalled: no " in reason_of(engine)
        # It was ended at once: neither its stacks nor its own end were waited for.
        assert engine.last_restart is not None
        assert engine.last_restart.log_tail[-1] == "it was stopped by SIGSTOP, so there are no stacks"
        assert reason_of(engine).endswith("killed by SIGKILL")
        assert await task == await ask(tree.api, BODY)


async def test_a_frozen_idle_engine_is_replaced_before_a_client_needs_it(serve_tree: ServeTree) -> None:
    tree = serve_tree(STALLS_EARLY)
    stop(tree.engine().pid)
    reason = reason_of(await until_replaced(tree))
    # Frozen as soon as it was ready, it may not have said anything since.
    assert re.match(r"stalled: no (first )?heartbeat for 1\.", reason)
    assert reason.endswith("killed by SIGKILL")


async def test_an_engine_that_hangs_leaves_its_stacks_and_its_stream_goes_on(serve_tree: ServeTree) -> None:
    tree = serve_tree(STALLS_EARLY + SLOW_STEPS + 'faults = [{ kind = "hang", after_tokens = 30, epochs = 1 }]')
    async with streaming(tree) as (_, task):
        engine = await until_replaced(tree)
        assert "stalled: no step for 1." in reason_of(engine)
        assert "with 1 requests running and 0 waiting (bound 1.0 s)" in reason_of(engine)
        assert engine.last_restart is not None
        assert any("in _suffer" in line for line in engine.last_restart.log_tail)
        assert await task == await ask(tree.api, BODY)


async def test_an_engine_that_hangs_in_its_first_step_is_found_too(serve_tree: ServeTree) -> None:
    tree = serve_tree(STALLS_EARLY + '[engine.simulated]\nfaults = [{ kind = "hang", epochs = 1 }]')
    answer = asyncio.create_task(ask(tree.api, BODY))
    assert "and 1 waiting (bound 3.0 s)" in reason_of(await until_replaced(tree))
    assert await answer == await ask(tree.api, BODY)


async def test_slow_steps_are_no_stall(serve_tree: ServeTree) -> None:
    tree = serve_tree(STALLS_EARLY + '[engine.simulated]\nfaults = [{ kind = "slow", amount = 900, after_tokens = 0 }]')
    assert len(await ask(tree.api, chat_body("Slowly.", seed=1, max_tokens=4))) == 4
    assert tree.engine().restarts == 0


async def test_a_planned_restart_lets_end_what_ends_soon_and_resumes_the_rest(serve_tree: ServeTree) -> None:
    tree = serve_tree(SIMULATED + "restart_drain_s = 1.0\n" + SLOW_STEPS)
    soon = chat_body("Be brief.", seed=3, max_tokens=20)
    async with streaming(tree) as (_, task):
        ending = asyncio.create_task(ask(tree.api, soon))
        await asyncio.to_thread(tree.until, lambda status: beat_of(status.engines[0]) == 2)
        epoch = tree.client.restart_engine("default")
        text = await ending
        assert tree.engine().epoch == epoch
        late = asyncio.create_task(ask(tree.api, soon))
        engine = await asyncio.to_thread(tree.until_ready, epoch + 1)
        assert (reason_of(engine), engine.last_restart and engine.last_restart.exit_code) == ("requested", 0)
        assert await task == await ask(tree.api, BODY)
        assert await late == text


def beat_of(engine: EngineStatus) -> int:
    """Requests that run, as the engine last said."""
    return 0 if engine.heartbeat is None else engine.heartbeat.running


async def test_requests_of_a_service_that_died_end_in_the_engine_that_stays(serve_tree: ServeTree) -> None:
    tree = serve_tree(SIMULATED + "[engine.simulated]\nstep_s = 0.2\n")
    before = tree.client.status()
    async with aiohttp.ClientSession() as http:
        chats = [Chat(tree.api, BODY | {"seed": seed}) for seed in range(4)]
        tasks = [asyncio.create_task(chat.run(http)) for chat in chats]
        await asyncio.gather(*(chat.until(1) for chat in chats))
        assert before.service.pid is not None
        os.kill(before.service.pid, signal.SIGKILL)
        for task in tasks:
            with pytest.raises(aiohttp.ClientError):
                await task
    status = await asyncio.to_thread(tree.until, lambda status: status.ready and status.service.restarts == 1)
    assert (status.engines[0].pid, status.engines[0].restarts) == (before.engines[0].pid, 0)
    await asyncio.to_thread(tree.until, lambda status: beat_of(status.engines[0]) == 0)


async def test_a_frozen_service_is_replaced_while_the_engine_stays(serve_tree: ServeTree) -> None:
    tree = serve_tree(STALLS_EARLY)
    before = tree.client.status()
    stop(before.service.pid)
    status = await asyncio.to_thread(tree.until, lambda status: status.ready and status.service.restarts == 1)
    assert status.service.last_restart is not None
    assert status.service.last_restart.reason.startswith("stalled: no answer for ")
    assert status.engines[0].pid == before.engines[0].pid
    assert get(f"{tree.api}/health/live")[0] == 200


async def test_an_exception_on_the_step_thread_is_named_in_the_status(serve_tree: ServeTree) -> None:
    tree = serve_tree(SIMULATED + '[engine.simulated]\nfaults = [{ kind = "leak", amount = 1e18, epochs = 1 }]')
    answer = asyncio.create_task(ask(tree.api, BODY))
    assert reason_of(await until_replaced(tree)).startswith("exit code 70: ")
    assert await answer == await ask(tree.api, BODY)

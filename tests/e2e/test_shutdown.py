"""The tree ends: asked to, or killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import aiohttp
import pytest

from tests.e2e.chatting import Chat, ask, chat_body
from tests.e2e.conftest import ServeTree
from tests.e2e.running import SIMULATED, RunningTree, get, gone, stoker, until_gone


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_tree_ends_at_once_and_leaves_nothing(tree: RunningTree, number: signal.Signals) -> None:
    pids = tree.pids()
    assert len(pids) == 3
    asked = time.monotonic()
    assert tree.stop(number) == 0
    assert time.monotonic() - asked < 5
    assert all(map(gone, pids))
    assert {path.name for path in tree.paths.run.iterdir()} == {
        "serve.lock",
        "default.epoch",
        "engine-default.json",
        "service.json",
        "soak.json",
    }


async def test_the_children_of_a_killed_watchdog_end_by_themselves(tree: RunningTree) -> None:
    pids = tree.pids()
    tree.stop(signal.SIGKILL)
    await until_gone(*pids)


async def test_answers_that_are_open_when_the_watchdog_is_killed_are_finished(serve_tree: ServeTree) -> None:
    tree = serve_tree(SIMULATED + "[engine.simulated]\nstep_s = 0.02\n")
    body = chat_body("Go on.", seed=7, max_tokens=80, stream=True)
    undisturbed = await ask(tree.api, body)
    pids = tree.pids()
    chat = Chat(tree.api, body)
    async with aiohttp.ClientSession() as http:
        answer = asyncio.create_task(chat.run(http))
        await chat.until(10)
        tree.stop(signal.SIGKILL)
        assert await answer == undisturbed
    await until_gone(*pids)


async def test_a_new_tree_waits_for_what_is_left_of_one_whose_watchdog_was_killed(tree: RunningTree) -> None:
    status = tree.client.status()
    service, engine = status.service.pid, status.engines[0].pid
    assert service is not None
    assert engine is not None
    os.kill(service, signal.SIGSTOP)
    tree.stop(signal.SIGKILL)
    # Each child sees the end for itself: a stuck one holds no other's lifeline.
    await until_gone(engine)
    coming_up = asyncio.create_task(asyncio.to_thread(tree.start))
    await tree.until_logged("waiting for the children of a `stoker serve` that is gone")
    os.kill(service, signal.SIGCONT)
    await coming_up
    assert gone(service)


def test_a_tree_comes_up_again_after_its_watchdog_was_killed(tree: RunningTree) -> None:
    tree.stop(signal.SIGKILL)
    told = stoker(tree.home, "status")
    assert told.returncode == 1
    assert "no stoker runs" in told.stderr
    tree.start()
    assert tree.until_ready(2).epoch == 2


async def test_a_second_signal_hastens_a_tree_that_waits_for_its_streams(serve_tree: ServeTree) -> None:
    patient = SIMULATED.replace("[server]", "[server]\ndrain_deadline_s = 600")
    tree = serve_tree(patient + "[engine.simulated]\nstep_s = 0.05\n")
    pids = tree.pids()
    chat = Chat(tree.api, chat_body("Go on.", max_tokens=4000, stream=True))
    async with aiohttp.ClientSession() as http:
        answer = asyncio.create_task(chat.run(http))
        await chat.until(3)
        tree.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(tree.until, lambda status: status.service.state == "stopping")
        assert await asyncio.to_thread(tree.stop, signal.SIGTERM) == 0
        answer.cancel()
    assert all(map(gone, pids))


def test_a_frozen_child_is_not_waited_for(serve_tree: ServeTree) -> None:
    tree = serve_tree(SIMULATED + "stop_deadline_s = 600")
    pid = tree.engine().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert tree.stop() == 0
    assert gone(pid)


def test_a_terminal_that_closes_does_not_end_the_tree(tree: RunningTree) -> None:
    tree.process.send_signal(signal.SIGHUP)
    assert get(f"{tree.api}/health/live")[0] == 200
    assert tree.client.status().ready

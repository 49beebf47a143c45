"""Children die; the tree heals and says why."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket

import pytest

from stoker.engine.client import SocketEngineClient
from stoker.engine.protocol import Heartbeat, Ready, RequestEvent, Sampling, Submit
from stoker.watchdog.supervisor import State
from tests.e2e.conftest import ServeTree
from tests.e2e.running import SIMULATED, RunningTree, eventually, get, stoker

CRASHES_ON_WORK = (
    SIMULATED
    + """
[engine.simulated]
faults = [{ kind = "crash" }]
[watchdog.restart]
intensity = 3
backoff_initial_s = 0.01
"""
)
SLOW_BACKOFF = (
    SIMULATED
    + """
[watchdog.restart]
backoff_initial_s = 1.0
"""
)


def kill(pid: int | None) -> None:
    assert pid is not None, "the child is not running"
    os.kill(pid, signal.SIGKILL)


class GivesWork:
    """Submits a request to every incarnation of an engine."""

    def __init__(self, tree: RunningTree) -> None:
        self.client = SocketEngineClient(tree.paths.socket("default"), self)

    def engine_ready(self, ready: Ready) -> None:
        self.client.submit(
            Submit(id="poison", prompt=[65], emitted=[], sampling=Sampling(seed=1), max_tokens=9, stop_ids=[])
        )

    def engine_draining(self) -> None: ...

    def engine_lost(self, reason: str) -> None: ...

    def engine_heartbeat(self, heartbeat: Heartbeat) -> None: ...

    def engine_event(self, event: RequestEvent) -> None: ...


def test_a_killed_engine_is_started_again_and_the_status_says_why_and_how_fast(tree: RunningTree) -> None:
    before = tree.engine()
    kill(before.pid)
    tree.until_ready(before.epoch + 1)

    answer = stoker(tree.home, "status", "--json")
    assert answer.returncode == 0
    engine = json.loads(answer.stdout)["engines"][0]
    assert (engine["epoch"], engine["restarts"]) == (before.epoch + 1, 1)
    assert engine["pid"] != before.pid
    assert engine["last_restart"]["reason"] == "killed by SIGKILL"
    assert engine["last_restart"]["exit_code"] == -signal.SIGKILL
    assert engine["last_restart"]["ready_after_s"] > 0


def test_a_killed_service_is_started_again_while_the_engine_stays(tree: RunningTree) -> None:
    before = tree.client.status()
    kill(before.service.pid)
    after = tree.until(lambda status: status.ready and status.service.restarts == 1)
    assert after.service.pid != before.service.pid
    assert after.service.url == before.service.url
    assert (after.engines[0].pid, after.engines[0].epoch) == (before.engines[0].pid, before.engines[0].epoch)
    assert after.service.last_restart is not None
    assert after.service.last_restart.reason == "killed by SIGKILL"


async def test_clients_that_come_while_the_service_is_down_are_answered_when_it_is_back(serve_tree: ServeTree) -> None:
    tree = serve_tree(SLOW_BACKOFF)
    kill(tree.client.status().service.pid)
    tree.until(lambda status: status.service.state is State.BACKOFF)
    answers = await asyncio.gather(*(asyncio.to_thread(get, f"{tree.api}/health/live") for _ in range(5)))
    assert {code for code, _ in answers} == {200}


async def test_a_crash_loop_stops_at_the_intensity_and_says_so(serve_tree: ServeTree) -> None:
    tree = serve_tree(CRASHES_ON_WORK)
    work = GivesWork(tree)
    giving = asyncio.create_task(work.client.run())
    status = await asyncio.to_thread(tree.until, lambda status: status.engines[0].state is State.CIRCUIT_OPEN)
    giving.cancel()

    engine = status.engines[0]
    assert not status.ready
    assert (engine.restarts, engine.epoch, engine.pid) == (3, 4, None)
    assert engine.failure is not None
    assert "after 3 restarts within 120 s (last: killed by SIGKILL)" in engine.failure
    # Lines are written in groups.
    await eventually(
        lambda: engine.failure in [line.get("error") for line in tree.log() if line["event"] == "circuit_open"]
    )
    assert get(f"{tree.api}/health/ready")[0] == 503

    told = stoker(tree.home, "status")
    assert told.returncode == 1
    assert engine.failure in told.stdout
    assert stoker(tree.home, "engine", "restart").returncode == 0
    assert tree.until_ready(5).failure is None


def test_a_restart_on_request_waits_until_the_engine_is_ready_and_does_not_count_as_a_crash(
    serve_tree: ServeTree,
) -> None:
    tree = serve_tree(SIMULATED + "[watchdog.restart]\nintensity = 1")
    for epoch in range(2, 5):
        answer = stoker(tree.home, "engine", "restart", "--json")
        assert answer.returncode == 0
        engine = json.loads(answer.stdout)
        assert (engine["state"], engine["epoch"]) == ("ready", epoch)
        assert (engine["last_restart"]["reason"], engine["last_restart"]["exit_code"]) == ("requested", 0)


def test_an_engine_that_does_not_exist_cannot_be_restarted(tree: RunningTree) -> None:
    told = stoker(tree.home, "engine", "restart", "no such/engine")
    assert (told.returncode, told.stdout) == (2, "")
    assert "there is no engine `no such/engine`" in told.stderr


def test_epochs_go_on_where_the_last_tree_ended(serve_tree: ServeTree) -> None:
    tree = serve_tree()
    tree.stop()
    tree.start()
    assert tree.until_ready(2).epoch == 2


def test_a_home_with_a_long_path_works_and_leaves_no_socket(serve_tree: ServeTree) -> None:
    tree = serve_tree()
    long = serve_tree(home=tree.home / ("deep" * 10) / ("deeper" * 10))
    path = long.paths.socket("default")
    assert path.is_socket()
    assert not path.is_relative_to(long.home)
    assert long.stop() == 0
    assert not path.parent.exists()


def test_a_service_that_can_never_run_is_refused_to_clients_rather_than_left_to_hang(serve_tree: ServeTree) -> None:
    tree = serve_tree(SIMULATED + "[watchdog.restart]\nintensity = 1\nprobe_s = 600")
    port = int(tree.api.rpartition(":")[2])
    kill(tree.client.status().service.pid)
    kill(tree.until(lambda status: status.ready and status.service.restarts == 1).service.pid)
    tree.until(lambda status: status.service.state is State.CIRCUIT_OPEN)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))

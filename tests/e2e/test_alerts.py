"""Being told, in the real tree: a kill is heard of in seconds, whatever becomes of the database or the watchdog."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import time

import pytest

from tests.alerts.receivers import KEY, Receiver, failing, ok, receiving
from tests.e2e.conftest import ServeTree
from tests.e2e.running import SIMULATED, RunningTree, eventually, scraped, stoker

DEADLINE_S = 30.0


def telling(*receivers: Receiver) -> str:
    """A tree that tells them of everything."""
    tables = [
        f'[[alerts.targets]]\nname = "ops{number}"\nurl = "{receiver.url}"\nsigning_key = "env:HOOK_KEY"\n'
        for number, receiver in enumerate(receivers)
    ]
    return SIMULATED + "".join(tables)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_KEY", KEY)


def kill_engine(tree: RunningTree) -> None:
    pid = tree.engine().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


async def test_a_kill_of_the_engine_is_told_with_its_end_and_everybody_can_see_it(serve_tree: ServeTree) -> None:
    async with asyncio.timeout(DEADLINE_S), receiving() as receiver:
        tree = await asyncio.to_thread(serve_tree, telling(receiver))
        await asyncio.to_thread(kill_engine, tree)
        began, over = await receiver.until(2)
        assert [each.body["status"] for each in (began, over)] == ["firing", "resolved"]
        assert began.body["alerts"][0]["labels"]["alertname"] == "StokerEngineDown"
        assert "killed by SIGKILL" in began.body["commonAnnotations"]["summary"]
        await eventually(lambda: _told(tree) == [("firing", "delivered"), ("resolved", "delivered")])
        shown = (await asyncio.to_thread(stoker, tree.home, "incidents")).stdout
        assert "ops0 told `firing`: delivered" in shown
        page = await asyncio.to_thread(scraped, tree.client.serving.watchdog)
        assert 'stoker_webhook_deliveries_total{outcome="delivered"} 2.0' in page
        assert KEY not in (tree.home / "serve.log").read_text()


async def test_a_watchdog_that_is_killed_while_it_tells_tells_it_when_it_is_back(serve_tree: ServeTree) -> None:
    async with asyncio.timeout(2 * DEADLINE_S), receiving(failing(500), ok) as receiver:
        tree = await asyncio.to_thread(serve_tree, telling(receiver))
        await asyncio.to_thread(kill_engine, tree)
        (first,) = await receiver.until(1)
        await eventually(lambda: _told(tree)[:1] == [("firing", None)])
        await asyncio.to_thread(tree.stop, signal.SIGKILL)
        await asyncio.to_thread(serve_tree, telling(receiver), tree.home)
        again, over = (await receiver.until(3))[1:3]
        assert (again.id, again.status, over.status) == (first.id, "firing", "resolved")


async def test_a_locked_database_keeps_nobody_from_being_told(serve_tree: ServeTree) -> None:
    async with asyncio.timeout(DEADLINE_S), receiving() as receiver:
        tree = await asyncio.to_thread(serve_tree, telling(receiver))
        await eventually((tree.home / "stoker.db").exists)
        with contextlib.closing(sqlite3.connect(tree.home / "stoker.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await asyncio.to_thread(kill_engine, tree)
            got = await receiver.until(2)
            assert [each.status for each in got if "StokerEngineDown" in str(each.body)][:1] == ["firing"]
            other.execute("COMMIT")
        await eventually(lambda: ("firing", "delivered") in _told(tree))


async def test_the_commands_try_show_and_silence(serve_tree: ServeTree) -> None:
    async with asyncio.timeout(DEADLINE_S), receiving() as well, receiving(failing(404)) as ill:
        tree = await asyncio.to_thread(serve_tree, telling(well, ill))

        async def run(*words: str) -> tuple[int, str]:
            done = await asyncio.to_thread(stoker, tree.home, "alerts", *words)
            return done.returncode, done.stdout + done.stderr

        code, said = await run("test")
        assert code == 1
        assert "ops0  firing: taken" in said and "ops0  resolved: taken" in said
        assert "ops1  firing: not taken: HTTP status 404" in said
        assert [each.body["alerts"][0]["labels"]["test"] for each in well.got] == ["true", "true"]
        assert (await run("test", "--target", "ops0"))[0] == 0
        assert (await run("test", "--target", "nobody"))[0] == 1
        assert (await run("silence", "2h", "--reason", "new disk"))[1].startswith("quiet until")
        code, said = await run("list", "--json")
        told = json.loads(said)
        assert [each["name"] for each in told["targets"]] == ["ops0", "ops1"]
        assert told["quiet_until"] > time.time()
        await asyncio.to_thread(kill_engine, tree)
        await eventually(lambda: {each for _, each in _told(tree)} == {"silenced"})
        assert (await run("silence", "0m")) == (0, "not quiet any more\n")
        assert "ops0" in (await run("list"))[1]
        assert "StokerEngineDown" in (await run("rules", "--json"))[1]
        assert (await run("silence", "soon"))[0] == 2


def test_a_target_that_cannot_be_told_keeps_the_tree_from_starting(
    serve_tree: ServeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_KEY")
    with pytest.raises(AssertionError, match=r"ended with 2: stoker: the variable HOOK_KEY .* is not set"):
        serve_tree(telling(Receiver("http://127.0.0.1:9/hook", [ok])))


def _told(tree: RunningTree) -> list[tuple[str, str | None]]:
    past = tree.client.past(3600).incidents
    return [(each.status, each.outcome) for told in past for each in told.deliveries]

"""Whatever happens to the journal's database, clients see nothing of it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from stoker.watchdog.journal.records import IncidentTold
from tests.e2e.chatting import ask, chat_body
from tests.e2e.conftest import ServeTree
from tests.e2e.running import RunningTree, eventually

BODY = chat_body("Tell me more.", seed=7, max_tokens=50, stream=True)


def trouble(tree: RunningTree) -> list[IncidentTold]:
    return [told for told in tree.client.past(3600).incidents if told.incident.kind == "journal"]


async def test_a_locked_database_costs_clients_nothing_and_the_journal_no_incident(serve_tree: ServeTree) -> None:
    tree = serve_tree()
    file = tree.home / "stoker.db"
    await eventually(file.exists)
    other = sqlite3.connect(file, isolation_level=None, timeout=30.0)
    other.execute("BEGIN EXCLUSIVE")
    text = await ask(tree.api, BODY)
    await eventually(lambda: bool(trouble(tree)))
    assert await ask(tree.api, BODY) == text
    assert tree.client.status().ready
    other.execute("COMMIT")
    other.close()
    await eventually(lambda: trouble(tree)[0].duration_s is not None)
    tree.stop()
    assert [told.incident.kind for told in await asyncio.to_thread(_told_without_a_tree, tree)] == ["journal"]


async def test_a_database_that_is_overwritten_is_set_aside_and_clients_see_nothing(serve_tree: ServeTree) -> None:
    tree = serve_tree()
    file = tree.home / "stoker.db"
    await eventually(file.exists)
    tree.stop()
    await asyncio.to_thread(_spoil, file)
    again = serve_tree(home=tree.home)
    assert await ask(again.api, BODY)
    await eventually(lambda: bool(trouble(again)))
    assert list(tree.home.glob("stoker.db.damaged-*"))


def _spoil(file: Path) -> None:
    file.write_bytes(b"what a pity" * 10_000)


def _told_without_a_tree(tree: RunningTree) -> list[IncidentTold]:
    from stoker.watchdog.commands.status import past_of

    return past_of(tree.paths, 3600.0).incidents

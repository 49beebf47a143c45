"""The door: who is inside, who is sent off, and who gives way."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from stoker.config import Server
from stoker.service.door import Door
from stoker.service.errors import QueueFull
from stoker.service.fairness import Caller
from tests.service.table import LIMITS, ROWS, Client, Table, order

SERVER = Server(max_queue=8, max_queue_tokens=20)
A, B = Caller("a"), Caller("b")


class Entrance:
    """A door before a table whose engine is there, and the codes of those who were sent off."""

    def __init__(self, server: Server = SERVER) -> None:
        self.table = Table(LIMITS)
        self.table.engine_comes()
        self.refused: list[str] = []
        self.door = Door(server, self.table.ledger, text_ready=lambda: True, on_refusal=self.refused.append)
        self._inside = contextlib.ExitStack()

    def enter(self, name: str, caller: Caller, prompt_tokens: int = 3) -> Client:
        client = Client()
        self._inside.enter_context(self.door.admitted(caller))
        self.door.submit(order(name, key=caller.key, prompt=[1] * prompt_tokens), client)
        return client

    def everybody_leaves(self) -> None:
        self._inside.close()


def test_who_is_inside_is_counted_until_they_leave() -> None:
    entrance = Entrance()
    for number in range(3):
        entrance.enter(f"a{number}", A)
    entrance.enter("b", B)
    conditions = entrance.door.conditions()
    assert (conditions.in_flight, conditions.clients) == (4, 2)
    entrance.everybody_leaves()
    conditions = entrance.door.conditions()
    assert (conditions.in_flight, conditions.clients) == (0, 0)


def test_one_more_than_the_bound_is_sent_off_and_counted() -> None:
    entrance = Entrance()
    for number in range(SERVER.max_queue):
        entrance.enter(f"a{number}", A, prompt_tokens=1)
    with pytest.raises(QueueFull):
        entrance.enter("one more", A)
    assert entrance.refused == ["queue_full"]
    assert entrance.door.conditions().in_flight == SERVER.max_queue


def test_one_with_nothing_inside_gets_the_place_of_one_with_much() -> None:
    entrance = Entrance()
    clients = [entrance.enter(f"a{number}", A, prompt_tokens=1) for number in range(SERVER.max_queue)]
    modest = entrance.enter("b", B, prompt_tokens=1)
    assert isinstance(clients[-1].ends[0], QueueFull)
    assert modest.ends == []
    assert entrance.refused == ["queue_full"]


def test_several_give_way_to_one_long_prompt() -> None:
    entrance = Entrance(Server(max_queue_tokens=20))
    clients = [entrance.enter(f"a{number}", A, prompt_tokens=5) for number in range(ROWS + 2 + 4)]
    entrance.enter("b", B, prompt_tokens=10)
    assert [len(client.ends) for client in clients] == [0] * (ROWS + 2 + 2) + [1, 1]


async def test_it_is_empty_once_the_last_has_left() -> None:
    entrance = Entrance()
    entrance.enter("a", A)
    waiting = asyncio.create_task(entrance.door.until_empty())
    await asyncio.sleep(0)
    assert not waiting.done()
    entrance.everybody_leaves()
    await waiting

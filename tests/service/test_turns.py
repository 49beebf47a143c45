"""Who goes to the engine next, seen from the ledger: after deaths, under suspicion, and in fair turns."""

from __future__ import annotations

import pytest

from stoker.engine.protocol import Finished, FinishReason, Limits, Prefill, Priority, Tokens
from stoker.service.errors import QueueFull, RequestQuarantined
from stoker.service.turns import LOOKAHEAD
from tests.service.table import NO_TIME, ROWS, Table


@pytest.fixture
def table() -> Table:
    table = Table()
    table.engine_comes()
    return table


def finish(table: Table, name: str) -> None:
    table.says(Finished(name, FinishReason.STOP, NO_TIME))


def crash(table: Table) -> None:
    table.engine_dies()
    table.engine_comes()


def test_the_engine_gets_what_it_computes_and_little_more(table: Table) -> None:
    names = [f"r{number}" for number in range(10)]
    for name in names:
        table.add(name)
    assert table.submitted() == names[: ROWS + LOOKAHEAD]
    assert table.ledger.snapshot().waiting == 10 - ROWS - LOOKAHEAD
    finish(table, "r2")
    assert table.submitted() == [names[ROWS + LOOKAHEAD]]


def test_an_engine_that_holds_nothing_waiting_gets_only_what_it_computes() -> None:
    table = Table(Limits(max_running=2, max_waiting=0, context_tokens=100))
    table.engine_comes()
    for number in range(5):
        table.add(f"r{number}")
    assert table.submitted() == ["r0", "r1"]


def test_clients_take_turns_and_batch_goes_last(table: Table) -> None:
    for number in range(ROWS + LOOKAHEAD):
        table.add(f"first{number}")
    table.submitted()
    table.add("late", priority=Priority.BATCH)
    for number in range(3):
        table.add(f"a{number}", key="a")
    table.add("b0", key="b")
    for number in range(5):
        finish(table, f"first{number}")
    assert table.submitted() == ["a0", "b0", "a1", "a2", "late"]


def test_one_that_leaves_while_it_waits_is_never_handed_over(table: Table) -> None:
    for number in range(ROWS + LOOKAHEAD + 2):
        table.add(f"r{number}")
    table.submitted()
    table.ledger.cancel("r6")
    finish(table, "r0")
    assert table.submitted() == ["r7"]
    assert table.engine.cancelled == []


def test_one_that_leaves_while_suspended_is_not_resumed(table: Table) -> None:
    table.add("a")
    table.add("b")
    table.submitted()
    table.engine_dies()
    table.ledger.cancel("a")
    table.engine_comes()
    assert table.submitted() == ["b"]


def test_the_newest_of_who_has_most_waiting_gives_way(table: Table) -> None:
    clients = [table.add(f"r{number}", key="greedy") for number in range(ROWS + LOOKAHEAD + 3)]
    assert table.ledger.give_way_to("modest")
    assert [len(client.ends) for client in clients] == [0] * (len(clients) - 1) + [1]
    assert isinstance(clients[-1].ends[0], QueueFull)
    assert not table.ledger.give_way_to("greedy")


def test_those_whose_engine_died_go_before_those_who_never_had_one(table: Table) -> None:
    for number in range(ROWS + LOOKAHEAD + 2):
        table.add(f"r{number}")
    table.submitted()
    crash(table)
    assert table.submitted() == [f"r{number}" for number in range(ROWS + LOOKAHEAD)]


def test_a_request_that_is_alone_in_three_crashes_fails_when_the_next_engine_is_there(table: Table) -> None:
    client = table.add("poison")
    for _ in range(2):
        crash(table)
        assert client.ends == []
    table.engine_dies()
    assert client.ends == []
    table.engine_comes()
    (error,) = client.ends
    assert isinstance(error, RequestQuarantined)
    assert table.value("request_resumes_total", outcome="quarantined") == 1
    with pytest.raises(RequestQuarantined):
        table.add("again")
    assert table.add("another", prompt=[9]).ends == []


def test_the_same_request_sent_twice_fails_twice_with_one_verdict(table: Table) -> None:
    first = table.add("first")
    crash(table)
    second = table.add("second")
    other = table.add("other", prompt=[9])
    crash(table)
    table.says(Tokens("other", 0, [7]), Prefill("second", 3, 3, 0))
    for _ in range(2):
        crash(table)
    assert isinstance(first.ends[0], RequestQuarantined)
    assert isinstance(second.ends[0], RequestQuarantined)
    assert other.ends == []


def test_a_broken_connection_to_a_living_engine_is_nobodys_crash(table: Table) -> None:
    client = table.add("a")
    for _ in range(5):
        table.engine_dies()
        table.epoch -= 1
        table.engine_comes()
    assert client.ends == []


def test_a_suspect_does_not_wait_inside_the_engine_where_it_would_be_blamed_for_others(table: Table) -> None:
    streams = [f"s{number}" for number in range(ROWS)]
    for number, name in enumerate([*streams, "stuck"]):
        table.add(name, prompt=[number + 1])
    for position in range(2):
        table.says(*(Tokens(name, position, [7]) for name in streams))
        crash(table)
        table.submitted()
    table.says(*(Tokens(name, 2, [7]) for name in streams))
    table.add("new", prompt=[8])
    assert table.submitted() == [], "the next free row is the suspect's"
    finish(table, "s0")
    assert table.submitted() == ["stuck", "new"]

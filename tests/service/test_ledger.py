"""The ledger by itself: what it tells the engine, what it tells its clients, and when."""

from __future__ import annotations

import pytest

from stoker.engine.protocol import Finished, FinishReason, Prefill, RejectCode, Rejected, Timings, Tokens
from stoker.service.errors import (
    ContextLengthExceeded,
    EngineUnavailable,
    GrammarFailed,
    InternalError,
    InvalidRequest,
    QueueTimeout,
    ServiceError,
    ShuttingDown,
    SlowReader,
)
from stoker.service.ledger import INTEGRITY_PERIOD_S
from stoker.service.observer import Resume
from tests.service.table import NO_TIME, QUEUE_DEADLINE_S, READER_DEADLINE_S, RESUME_DEADLINE_S, ROWS, Table

CANCELLED_SLOW = Finished("slow", FinishReason.CANCELLED, NO_TIME)


@pytest.fixture
def table() -> Table:
    table = Table()
    table.engine_comes()
    return table


def test_a_request_goes_to_the_engine_and_its_tokens_to_the_client(table: Table) -> None:
    client = table.add("a")
    table.says(Prefill("a", 3, 3, 2), Tokens("a", 0, [7]), Tokens("a", 1, [8, 9]))
    table.says(Finished("a", FinishReason.STOP, NO_TIME))
    assert (client.ids, client.ends, client.cached) == ([7, 8, 9], [FinishReason.STOP], 2)
    assert table.engine.submitted[0].emitted == []


def test_after_a_death_requests_are_handed_over_again_oldest_first_with_what_they_emitted(table: Table) -> None:
    first, second = table.add("first"), table.add("second")
    table.says(Tokens("second", 0, [4]), Tokens("first", 0, [7, 8]))
    table.engine_dies()
    third = table.add("third")
    table.engine.submitted.clear()
    table.engine_comes()
    assert [(submit.id, submit.emitted) for submit in table.engine.submitted] == [
        ("first", [7, 8]),
        ("second", [4]),
        ("third", []),
    ]
    assert all(submit.sampling.seed == 5 for submit in table.engine.submitted)
    table.says(Tokens("first", 2, [9]), Tokens("second", 1, [5]), Tokens("third", 0, [6]))
    assert (first.ids, second.ids, third.ids) == ([7, 8, 9], [4, 5], [6])
    assert table.value("request_resumes_total", outcome="resumed") == 2, "the third never lost an engine"


def test_a_token_that_is_known_is_dropped(table: Table) -> None:
    client = table.add("a")
    table.says(Tokens("a", 0, [7, 8]), Tokens("a", 0, [7, 8]), Tokens("a", 1, [8, 9]))
    assert client.ids == [7, 8, 9]


def test_a_missing_token_ends_the_request_loudly(table: Table) -> None:
    client = table.add("a")
    table.says(Tokens("a", 0, [7]), Tokens("a", 2, [9]))
    assert isinstance(client.ends[0], InternalError)
    assert table.engine.cancelled == ["a"]
    table.says(Tokens("a", 3, [9]))
    assert client.ids == [7]


def test_a_request_that_had_its_last_token_when_the_engine_died_is_finished_without_another(table: Table) -> None:
    client = table.add("a", max_tokens=2)
    table.says(Tokens("a", 0, [7, 8]))
    table.engine_dies()
    table.engine.submitted.clear()
    table.engine_comes()
    assert client.ends == [FinishReason.LENGTH]
    assert table.engine.submitted == []


def test_a_request_that_waits_too_long_for_an_engine_fails(table: Table) -> None:
    client = table.add("a")
    table.now = 100.0
    table.engine_dies()
    table.now += RESUME_DEADLINE_S - 0.1
    table.ledger.tick()
    assert client.ends == []
    table.now += 0.1
    table.ledger.tick()
    assert isinstance(client.ends[0], EngineUnavailable)
    assert table.value("request_resumes_total", outcome=Resume.EXPIRED.value) == 1


def test_an_engine_that_is_stopping_leaves_a_request_to_its_successor(table: Table) -> None:
    client = table.add("a")
    table.says(Rejected("a", RejectCode.STOPPING, "stopping"))
    table.engine_dies()
    table.engine_comes()
    table.says(Tokens("a", 0, [7]), Finished("a", FinishReason.STOP, NO_TIME))
    assert (client.ids, client.ends) == ([7], [FinishReason.STOP])


@pytest.mark.parametrize(
    ("code", "kind"),
    [(RejectCode.INVALID, InvalidRequest), (RejectCode.CONTEXT_LENGTH_EXCEEDED, ContextLengthExceeded)],
)
def test_a_rejection_of_the_request_itself_reaches_the_client(
    table: Table, code: RejectCode, kind: type[ServiceError]
) -> None:
    client = table.add("a")
    table.says(Rejected("a", code, "it will not do"))
    (error,) = client.ends
    assert isinstance(error, kind)
    assert str(error) == "it will not do"


def test_an_engine_that_is_full_is_asked_again_when_something_has_ended(table: Table) -> None:
    _, second, third = table.add("first"), table.add("second"), table.add("third")
    table.says(Rejected("second", RejectCode.QUEUE_FULL, "8 are waiting"), Tokens("first", 0, [7]))
    table.submitted()
    table.says(Finished("first", FinishReason.STOP, NO_TIME))
    assert table.submitted() == ["second"], "the third is there already"
    assert second.ends == third.ends == []


def test_a_resubmission_that_is_refused_is_tried_again_until_its_deadline(table: Table) -> None:
    client = table.add("a")
    table.says(Tokens("a", 0, [7]))
    table.engine_dies()
    table.engine_comes()
    while not client.ends:
        assert table.submitted().count("a") <= 2
        table.says(Rejected("a", RejectCode.QUEUE_FULL, "8 are waiting"))
        table.now += 1.0
        table.ledger.tick()
    assert table.now == RESUME_DEADLINE_S
    assert isinstance(client.ends[0], QueueTimeout)
    assert table.value("request_resumes_total", outcome="expired") == 1


def test_a_request_that_no_engine_begins_with_fails_at_the_queues_deadline(table: Table) -> None:
    clients = [table.add(f"r{number}") for number in range(8)]
    for number in range(ROWS):
        table.says(Prefill(f"r{number}", 1, 3, 0))
    table.now = QUEUE_DEADLINE_S
    table.ledger.tick()
    assert [len(client.ends) for client in clients] == [0] * ROWS + [1] * 4
    assert all(isinstance(client.ends[0], QueueTimeout) for client in clients[ROWS:])
    assert table.engine.cancelled == ["r4", "r5"], "those that the engine had, waiting"
    assert table.ledger.snapshot().waiting == 0


def test_nothing_new_goes_to_an_engine_that_drains_and_its_loss_is_no_crash(table: Table) -> None:
    old = table.add("old")
    table.says(Tokens("old", 0, [7]))
    table.engine_drains()
    new = table.add("new")
    assert table.submitted() == ["old"]
    table.says(Tokens("old", 1, [8]))
    table.engine_dies()
    table.engine_comes()
    assert table.submitted() == ["old", "new"]
    for _ in range(5):
        table.engine_drains()
        table.engine_dies()
        table.engine_comes()
    table.says(Tokens("old", 2, [9]), Tokens("new", 0, [7]))
    assert (old.ids, new.ids, old.ends, new.ends) == ([7, 8, 9], [7], [], [])


def test_what_an_engine_says_of_a_request_that_it_does_not_have_is_dropped(table: Table) -> None:
    client = table.add("a")
    table.engine_dies()
    table.says(Tokens("a", 0, [7]), Finished("a", FinishReason.STOP, NO_TIME))
    assert (client.ids, client.ends) == ([], [])


def test_the_same_incarnation_saying_twice_that_it_is_ready_changes_nothing(table: Table) -> None:
    table.add("a")
    assert table.engine.ready is not None
    table.ledger.engine_ready(table.engine.ready)
    assert table.submitted() == ["a"]


def test_a_cancelled_request_is_cancelled_once_and_heard_of_no_more(table: Table) -> None:
    client = table.add("a")
    table.ledger.cancel("a")
    table.ledger.cancel("a")
    table.says(Tokens("a", 0, [7]), Finished("a", FinishReason.CANCELLED, NO_TIME))
    assert (client.ids, client.ends, table.engine.cancelled) == ([], [], ["a"])
    assert table.value("requests_cancelled_total") == 1


def test_a_cancellation_that_nobody_asked_for_is_an_error(table: Table) -> None:
    client = table.add("a")
    table.says(Finished("a", FinishReason.CANCELLED, NO_TIME))
    assert isinstance(client.ends[0], InternalError)


def test_a_format_that_could_not_be_followed_to_the_end_is_an_error_with_its_reason(table: Table) -> None:
    client = table.add("a")
    table.says(Tokens("a", 0, [7]), Finished("a", FinishReason.GRAMMAR_FAILED, NO_TIME, "too many readings"))
    (error,) = client.ends
    assert client.ids == [7]
    assert isinstance(error, GrammarFailed)
    assert "too many readings" in str(error)


def test_a_reader_that_is_behind_pauses_its_request_alone_until_it_has_caught_up(table: Table) -> None:
    slow, quick = table.add("slow", room=2), table.add("quick")
    table.says(Tokens("slow", 0, [7]), Tokens("slow", 1, [8]), Tokens("quick", 0, [7]))
    assert table.engine.cancelled == ["slow"]
    # What was on its way is not lost, nor is the engine asked twice.
    table.says(Tokens("slow", 2, [9]), CANCELLED_SLOW)
    assert table.engine.cancelled == ["slow"]
    assert table.ledger.snapshot().running == 1
    table.submitted()
    table.now += READER_DEADLINE_S - 1
    table.ledger.tick()
    assert table.submitted() == []
    slow.room = 100
    table.ledger.caught_up("slow")
    assert [(submit.id, submit.emitted) for submit in table.engine.submitted] == [("slow", [7, 8, 9])]
    table.says(Tokens("slow", 3, [10]), Finished("slow", FinishReason.STOP, NO_TIME))
    assert (slow.ids, slow.ends) == ([7, 8, 9, 10], [FinishReason.STOP])
    assert (quick.ids, quick.ends) == ([7], [])


def test_a_reader_that_catches_up_before_the_engine_has_let_go_goes_on_after_it(table: Table) -> None:
    slow = table.add("slow", room=1)
    table.says(Tokens("slow", 0, [7]))
    slow.room = 100
    table.submitted()
    table.ledger.caught_up("slow")
    assert table.submitted() == []
    table.says(CANCELLED_SLOW)
    assert table.submitted() == ["slow"]


def test_a_request_that_ends_before_the_engine_has_let_go_has_ended(table: Table) -> None:
    slow = table.add("slow", room=1)
    table.says(Tokens("slow", 0, [7]), Finished("slow", FinishReason.STOP, NO_TIME), CANCELLED_SLOW)
    assert (slow.ids, slow.ends) == ([7], [FinishReason.STOP])


def test_a_reader_that_does_not_move_for_too_long_loses_its_request_alone(table: Table) -> None:
    slow, quick = table.add("slow", room=1), table.add("quick")
    table.says(Tokens("slow", 0, [7]), CANCELLED_SLOW, Tokens("quick", 0, [7]))
    table.now += READER_DEADLINE_S
    table.ledger.tick()
    assert [type(end) for end in slow.ends] == [SlowReader]
    assert (quick.ids, quick.ends) == ([7], [])
    assert table.value("requests_cancelled_total") == 1


def test_a_paused_request_does_not_care_that_its_engine_dies(table: Table) -> None:
    slow = table.add("slow", room=1)
    table.says(Tokens("slow", 0, [7]), CANCELLED_SLOW)
    table.engine_dies()
    table.now += RESUME_DEADLINE_S / 2
    slow.room = 100
    table.ledger.caught_up("slow")
    table.engine_comes()
    table.says(Tokens("slow", 1, [8]))
    assert slow.ids == [7, 8]
    assert table.value("request_resumes_total", outcome="resumed") is None, "it never lost an engine"


def test_an_engine_that_dies_while_it_lets_go_loses_nothing(table: Table) -> None:
    slow = table.add("slow", room=1)
    table.says(Tokens("slow", 0, [7]))
    table.engine_dies()
    table.engine_comes()
    table.says(Tokens("slow", 1, [8]))
    assert table.engine.cancelled == ["slow", "slow"], "the new engine has to let go of it as well"
    assert slow.ids == [7, 8]


def test_everything_can_be_ended_at_once(table: Table) -> None:
    clients = [table.add("a"), table.add("b")]
    table.ledger.fail_all(ShuttingDown("over"))
    assert [[type(end) for end in client.ends] for client in clients] == [[ShuttingDown], [ShuttingDown]]
    assert table.engine.cancelled == ["a", "b"]


def test_times_are_measured_from_arrival_and_between_tokens(table: Table) -> None:
    table.add("a")
    for position, now in enumerate((2.0, 2.5, 3.5)):
        table.now = now
        table.says(Tokens("a", position, [7]))
    table.says(Finished("a", FinishReason.STOP, Timings(0.25, 1.75, 1.5, 3)))
    assert table.value("time_to_first_token_seconds_sum") == 2.0
    assert table.value("inter_token_latency_seconds_sum") == 1.5
    assert table.value("time_per_output_token_seconds_sum") == 0.75
    assert table.value("request_duration_seconds_sum") == 3.5
    assert table.value("queue_seconds_sum") == 0.25
    assert table.value("prompt_tokens_total", source="computed") == 3
    assert table.value("generated_tokens_total") == 3


def test_an_idle_ledger_is_checked_now_and_then(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []
    monkeypatch.setattr(table.ledger, "check_integrity", lambda: checks.append("checked"))
    table.add("a")
    table.says(Tokens("a", 0, [7]))
    table.now += INTEGRITY_PERIOD_S
    table.ledger.tick()
    assert checks == [], "not while anything is in flight"
    table.says(Finished("a", FinishReason.STOP, NO_TIME))
    table.ledger.tick()
    table.ledger.tick()
    assert checks == ["checked"]

"""Who goes next: nobody waits behind another's hundred, and nobody saves up turns."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import Priority
from stoker.service.fairness import BATCH_EVERY, COST_OF_A_REQUEST, Caller, FairQueue

A, B, C = Caller("a"), Caller("b"), Caller("c")


def filled(*callers: Caller, tokens: int = 10) -> FairQueue:
    """Requests named by their client and their number among all."""
    queue = FairQueue()
    for number, caller in enumerate(callers):
        queue.push(caller, f"{caller.key}{number}", tokens)
    return queue


def drained(queue: FairQueue) -> list[str]:
    return list(iter(queue.pop, None))


def test_one_client_is_served_in_the_order_of_arrival() -> None:
    assert drained(filled(A, A, A)) == ["a0", "a1", "a2"]


def test_clients_take_turns_however_much_one_has_sent_before() -> None:
    assert drained(filled(A, A, A, A, B, B)) == ["a0", "b4", "a1", "b5", "a2", "a3"]


def test_long_prompts_use_up_more_of_a_turn() -> None:
    queue = FairQueue()
    for number in range(3):
        queue.push(A, f"a{number}", 3 * COST_OF_A_REQUEST)
        queue.push(B, f"b{number}", COST_OF_A_REQUEST)
    assert drained(queue) == ["a0", "b0", "b1", "a1", "b2", "a2"]


def test_a_client_that_was_away_has_no_turns_in_store() -> None:
    queue = filled(A, A, A, A)
    assert [queue.pop(), queue.pop()] == ["a0", "a1"]
    for number in range(2):
        queue.push(B, f"b{number}", 10)
    assert drained(queue) == ["b0", "a2", "b1", "a3"]


def test_a_client_that_sends_its_next_at_once_does_not_starve_one_that_waits() -> None:
    queue = filled(A, A, A)
    served: Counter[str] = Counter()
    for number in range(6):
        queue.push(B, f"b{number}", 10)
        served[(queue.pop() or "")[0]] += 1
    assert served == {"a": 3, "b": 3}


def test_batch_requests_go_when_nobody_waits_for_an_answer() -> None:
    queue = filled(Caller("a", Priority.BATCH), A, B, Caller("b", Priority.BATCH))
    assert drained(queue) == ["a1", "b2", "a0", "b3"]


def test_a_batch_request_has_its_turn_however_many_others_come() -> None:
    queue = filled(Caller("a", Priority.BATCH), Caller("a", Priority.BATCH))
    turns = []
    for number in range(2 * BATCH_EVERY):
        queue.push(B, f"b{number}", 10)
        turns.append(queue.pop())
    assert [turn for turn, request in enumerate(turns) if request in ("a0", "a1")] == [
        BATCH_EVERY - 1,
        2 * BATCH_EVERY - 1,
    ]


def test_turns_that_no_batch_request_waited_through_do_not_count() -> None:
    queue = filled(*[A] * BATCH_EVERY)
    for _ in range(BATCH_EVERY - 1):
        queue.pop()
    queue.push(Caller("b", Priority.BATCH), "late", 10)
    assert queue.pop() == f"a{BATCH_EVERY - 1}"


def test_who_holds_most_gives_way_with_its_newest() -> None:
    queue = filled(A, A, B, A)
    assert queue.giving_way_to("c") == "a3"
    assert queue.giving_way_to("b") == "a3"


def test_nobody_gives_way_to_one_who_would_then_hold_as_many() -> None:
    queue = filled(A, A, B)
    assert queue.giving_way_to("a") is None
    assert queue.giving_way_to("b") is None, "a would have 1, and b 2"
    assert filled(A).giving_way_to("c") is None
    assert FairQueue().giving_way_to("c") is None


def test_a_forgotten_request_is_not_served_and_holds_no_tokens() -> None:
    queue = filled(A, B, A)
    queue.discard("a0")
    queue.discard("never came")
    assert (len(queue), queue.tokens) == (2, 20)
    assert sorted(drained(queue)) == ["a2", "b1"]
    assert (len(queue), queue.tokens) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(1, 5000)), max_size=40), st.integers(0, 40))
def test_every_request_is_served_once_and_no_client_gets_far_ahead(
    arrivals: list[tuple[Caller, int]], until: int
) -> None:
    queue = FairQueue()
    cost: dict[str, int] = {}
    for number, (caller, tokens) in enumerate(arrivals):
        queue.push(caller, f"{caller.key}{number}", tokens)
        cost[f"{caller.key}{number}"] = tokens + COST_OF_A_REQUEST
    served: Counter[str] = Counter()
    order = []
    while (request_id := queue.pop()) is not None:
        order.append(request_id)
        served[request_id[0]] += cost[request_id]
        left = Counter(each[0] for each in cost if each not in order)
        busy = [served[key] for key in left]
        if len(busy) > 1:
            assert max(busy) - min(busy) <= max(cost.values()), "the fair bound: one request"
    assert sorted(order) == sorted(cost)

"""The outbox on a clock to turn: order, retries, circuits, and a thousand lives with crashes that lose nothing."""

from __future__ import annotations

import random

import msgspec
import pytest

from stoker.alerts.backoff import LONGEST_S, PROBE_LONGEST_S
from stoker.alerts.delivery import Delivery, Failed, Outcome, Received, Unwanted
from stoker.alerts.edge import Edge, Status
from stoker.alerts.outbox import CIRCUIT_OPENS_AT, Outbox
from tests.alerts.edges import BEGAN, OVER, edge

DAY_S = 86400.0
FAILS = Failed("HTTP status 500")


class Office:
    """An outbox with its clock; `attempt` makes one attempt of what is due and says whose it was."""

    def __init__(self, *targets: str) -> None:
        self.now = 1000.0
        self.targets = targets or ("ops",)
        self.outbox = Outbox(self.targets, DAY_S)
        self.ended: list[Delivery] = []

    def tell(self, *edges: Edge, quiet: bool = False) -> None:
        for each in edges:
            self._note(self.outbox.accept(each, self.targets, self.now, quiet))

    def attempt(self, result: Received | Failed | Unwanted) -> list[str]:
        due = self.outbox.next(self.now)
        for delivery in due:
            claimed = self.outbox.claim(delivery)
            self._note(self.outbox.settle(claimed, result, self.now, jitter=1.0))
            self.outbox.release(delivery.target)
            self.outbox.check_integrity()
        return [delivery.edge.status.value for delivery in due]

    def sleep(self) -> float:
        """Until something is due; returns for how long."""
        wakes_at = self.outbox.wakes_at()
        assert wakes_at is not None
        slept, self.now = wakes_at - self.now, max(self.now, wakes_at)
        return slept

    def _note(self, changed: list[Delivery]) -> None:
        self.ended += [each for each in changed if each.outcome is not None]


def test_an_incident_is_told_in_order_and_once() -> None:
    office = Office()
    office.tell(BEGAN, OVER, BEGAN)
    assert [office.attempt(Received()), office.attempt(Received()), office.attempt(Received())] == [
        ["firing"],
        ["resolved"],
        [],
    ]
    assert [each.outcome for each in office.ended] == [Outcome.DELIVERED] * 2


def test_an_end_waits_for_a_beginning_that_has_not_arrived() -> None:
    office = Office()
    office.tell(BEGAN)
    assert office.attempt(FAILS) == ["firing"]
    office.tell(OVER)
    assert office.attempt(FAILS) == []
    office.sleep()
    assert [office.attempt(Received()), office.attempt(Received())] == [["firing"], ["resolved"]]


def test_an_incident_that_cannot_be_delivered_does_not_hold_up_the_others() -> None:
    office = Office()
    office.tell(BEGAN)
    office.attempt(FAILS)
    office.tell(edge("i2", Status.FIRING, 1001.0))
    office.attempt(Received())
    assert [each.edge.incident for each in office.ended] == ["i2"]


def test_waits_grow_up_to_a_bound_and_end_after_a_day() -> None:
    office = Office()
    office.tell(BEGAN)
    waits = []
    while not office.ended:
        office.attempt(FAILS)
        if not office.ended:
            waits.append(office.sleep())
    assert waits[:4] == [5.0, 10.0, 20.0, 40.0]
    assert max(waits) <= max(LONGEST_S, PROBE_LONGEST_S)
    assert office.now >= 1000.0 + DAY_S
    assert (office.ended[0].outcome, office.ended[0].error) == (Outcome.DROPPED, "HTTP status 500")


def test_nobody_is_told_the_end_of_what_was_given_up() -> None:
    office = Office()
    office.tell(BEGAN)
    office.attempt(Unwanted("HTTP status 400"))
    office.tell(OVER)
    assert office.attempt(Received()) == []
    assert [each.outcome for each in office.ended] == [Outcome.DROPPED] * 2


def test_a_receiver_that_is_gone_is_not_asked_again() -> None:
    office = Office()
    office.tell(BEGAN, edge("i2", Status.FIRING, 1001.0))
    office.attempt(Unwanted("HTTP status 410", gone=True))
    office.tell(edge("i3", Status.FIRING, 1002.0))
    assert office.attempt(Received()) == []
    assert len(office.ended) == 3
    assert office.outbox.snapshot()[0].gone


def test_a_receiver_is_left_alone_for_as_long_as_it_asks() -> None:
    office = Office()
    office.tell(BEGAN, edge("i2", Status.FIRING, 1001.0))
    office.attempt(Failed("HTTP status 429", after_s=120.0))
    assert office.attempt(Received()) == []
    assert office.sleep() == 120.0
    assert office.attempt(Received()) == ["firing"]


def test_a_receiver_that_keeps_failing_is_only_probed_until_it_works() -> None:
    office = Office()
    office.tell(*(edge(f"i{number}", Status.FIRING, 1000.0 + number) for number in range(20)))
    for _ in range(CIRCUIT_OPENS_AT):
        office.attempt(FAILS)
    assert office.outbox.snapshot()[0].circuit_open
    assert office.attempt(FAILS) == []
    office.sleep()
    assert office.attempt(FAILS) == ["firing"]
    assert office.sleep() <= 10.0
    office.attempt(Received())
    # It is back: nothing waits for a time that was guessed while it was away.
    for _ in range(19):
        assert office.attempt(Received()) == ["firing"]


def test_a_slow_target_does_not_hold_up_another() -> None:
    outbox = Outbox(("slow", "quick"), DAY_S)
    outbox.accept(BEGAN, ("slow", "quick"), 0.0)
    slow, quick = outbox.next(0.0)
    outbox.claim(slow)
    outbox.settle(outbox.claim(quick), Received(), 1.0, 0.0)
    outbox.release("quick")
    outbox.accept(OVER, ("slow", "quick"), 2.0)
    assert [each.target for each in outbox.next(2.0)] == ["quick"]


def test_what_begins_and_ends_in_a_quiet_period_is_never_told() -> None:
    office = Office()
    office.tell(BEGAN, OVER, quiet=True)
    assert office.attempt(Received()) == []
    assert [each.outcome for each in office.ended] == [Outcome.SILENCED] * 2


def test_what_lasts_beyond_a_quiet_period_is_told_after_it() -> None:
    office = Office()
    office.tell(BEGAN, quiet=True)
    assert office.attempt(Received()) == ["firing"]


def test_what_an_earlier_process_left_has_its_old_id_and_is_due_at_once() -> None:
    outbox = Outbox(("ops",), DAY_S)
    (made,) = outbox.accept(BEGAN, ["ops"], 0.0)
    claimed = outbox.claim(made)
    later = Outbox(("ops",), DAY_S)
    assert [each.edge.status for each in later.restore([claimed], 50.0)] == [Status.RESOLVED]
    (again,) = later.next(50.0)
    assert (again.id, again.attempts) == (made.id, 1)


def test_an_incident_of_an_earlier_process_ends_although_nobody_saw_it_end() -> None:
    told = Delivery("ops", BEGAN, 0.0, DAY_S, attempts=1, outcome=Outcome.DELIVERED, ended_at=1.0)
    outbox = Outbox(("ops",), DAY_S)
    (over,) = outbox.restore([told], 50.0)
    assert (over.edge.status, over.edge.at) == (Status.RESOLVED, 50.0)
    assert outbox.next(50.0) == [over]


def test_what_was_left_for_a_target_that_is_no_more_is_dropped() -> None:
    outbox = Outbox(("other",), DAY_S)
    (dropped,) = outbox.restore([Delivery("ops", BEGAN, 0.0, DAY_S)], 50.0)
    assert (dropped.outcome, dropped.error) == (Outcome.DROPPED, "its target is not configured any more")


class Crash(Exception):
    """The process dies here."""


class Life:
    """Edges, two receivers that fail at random, and a process that dies between any two steps, by one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.shelf: dict[str, Delivery] = {}
        self.received: dict[str, list[str]] = {"a": [], "b": []}
        self.kept: set[str] = set()
        self.made = 0
        self.open: list[str] = []
        self.outbox = self._started()

    def run(self) -> None:
        for _ in range(self.random.randint(5, 40)):
            self.step(crashes=True)
        for _ in range(10_000):
            if not self.outbox.waiting:
                break
            self.step(crashes=False)
        assert not self.outbox.waiting

    def step(self, crashes: bool) -> None:
        try:
            if crashes and self.random.random() < 0.5:
                self._tell(crashes)
            self.now += self.random.random() * 20 if crashes else 300
            for delivery in self.outbox.next(self.now):
                self._attempt(delivery, crashes)
            self.outbox.check_integrity()
        except Crash:
            self.open.clear()
            self.outbox = self._started()

    def _tell(self, crashes: bool) -> None:
        if self.open and self.random.random() < 0.5:
            incident = self.open.pop(self.random.randrange(len(self.open)))
            told = edge(incident, Status.RESOLVED, self.now)
        else:
            self.made += 1
            told = edge(f"i{self.made}", Status.FIRING, self.now)
            self.open.append(told.incident)
        changed = self.outbox.accept(told, self.received, self.now)
        self._perhaps_die(crashes)
        self._keep(changed)
        self._perhaps_die(crashes)

    def _attempt(self, delivery: Delivery, crashes: bool) -> None:
        claimed = self.outbox.claim(delivery)
        self._perhaps_die(crashes)
        self._keep([claimed])
        self._perhaps_die(crashes)
        works = not crashes or self.random.random() < 0.4
        # It may have arrived although the answer did not.
        if works or self.random.random() < 0.3:
            self.received[claimed.target].append(claimed.id)
        self._perhaps_die(crashes)
        changed = self.outbox.settle(claimed, Received() if works else FAILS, self.now, self.random.random())
        self._perhaps_die(crashes)
        self._keep(changed)
        self._perhaps_die(crashes)
        self.outbox.release(claimed.target)

    def _keep(self, changed: list[Delivery]) -> None:
        """In one transaction."""
        for each in changed:
            self.shelf[each.id] = each
            self.kept.add(each.id)

    def _perhaps_die(self, crashes: bool) -> None:
        if crashes and self.random.random() < 0.04:
            raise Crash

    def _started(self) -> Outbox:
        outbox = Outbox(self.received, DAY_S)
        ended = {each.edge.incident for each in self.shelf.values() if each.edge.status is Status.RESOLVED}
        left = [
            each
            for each in self.shelf.values()
            if each.outcome is None or (each.edge.status is Status.FIRING and each.edge.incident not in ended)
        ]
        self._keep(outbox.restore(left, self.now))
        return outbox


def first_times(ids: list[str]) -> list[str]:
    """What a receiver that knows ids makes of what it gets."""
    return list(dict.fromkeys(ids))


@pytest.mark.parametrize("hundred", range(10))
def test_in_a_thousand_random_lives_with_crashes_nothing_is_lost_or_out_of_order(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        life = Life(seed)
        life.run()
        for target, ids in life.received.items():
            once = first_times(ids)
            assert set(once) == {each for each in life.kept if each.endswith(f"_{target}")}, seed
            for incident in {each.split("_")[1] for each in once}:
                of_it = [each.split("_")[2] for each in once if each.split("_")[1] == incident]
                assert of_it == ["firing", "resolved"] or (of_it == ["firing"] and incident in life.open), seed


def test_a_delivery_is_the_same_after_it_was_written_and_read() -> None:
    made = Delivery("ops", OVER, 0.0, DAY_S, attempts=3, outcome=Outcome.DROPPED, ended_at=9.0, error="gone")
    assert msgspec.json.decode(msgspec.json.encode(made), type=Delivery) == made

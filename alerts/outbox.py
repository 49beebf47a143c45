"""Which delivery is sent when. Pure: it is told the time and what came of each attempt, and says what changed.

A delivery is one edge on its way to one target. Its id follows from both, so that telling the same edge twice makes
one delivery, and a receiver knows what it has had. Three rules:

- of one incident a target is told in order: an end is not sent before the beginning has arrived or been given up;
- each target has one delivery under way at most, and a target that keeps failing is only probed until it works;
- nothing is given up before its time is over, unless the receiver itself says that it never wants it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from .backoff import probe_after, retry_after
from .delivery import Delivery, Failed, Outcome, Received, Result, TargetStatus, Unwanted, delivery_id
from .edge import Edge, Status

CIRCUIT_OPENS_AT = 5
"""Failures of a target in a row; from then on it is only probed."""


@dataclass
class Lane:
    """What is known about one target."""

    failures: int = 0
    """Attempts that failed since the last one that worked."""
    probe_at: float | None = None
    """While its circuit is open: when it is tried again."""
    resting_until: float = 0.0
    """The receiver asked for so much quiet."""
    gone: bool = False
    under_way: str | None = None


class Outbox:
    """Every delivery that is not over, and each target's lane. The courier is its only writer."""

    def __init__(self, targets: Iterable[str], retry_for_s: float) -> None:
        self._lanes = {name: Lane() for name in targets}
        self._retry_for_s = retry_for_s
        self._waiting: dict[str, Delivery] = {}
        self._unsaid: set[str] = set()
        """Ends whose beginnings were given up; nobody is told of them."""

    @property
    def waiting(self) -> tuple[Delivery, ...]:
        """Oldest first."""
        return tuple(self._waiting.values())

    def lane(self, target: str) -> Lane:
        return self._lanes[target]

    def accept(self, edge: Edge, targets: Iterable[str], now: float, quiet: bool = False) -> list[Delivery]:
        """Deliveries of an edge to targets; returns what changed. One that is known already stays as it is."""
        changed: list[Delivery] = []
        for target in targets:
            made = Delivery(target, edge, now, now + self._retry_for_s)
            if made.id in self._waiting:
                continue
            began = self._waiting.get(delivery_id(edge.incident, Status.FIRING, target))
            if quiet and edge.status is Status.RESOLVED and began is not None and not began.attempts:
                changed += [self._end(began, Outcome.SILENCED, now), self._end(made, Outcome.SILENCED, now)]
            elif made.id in self._unsaid or self._lanes[target].gone:
                self._unsaid.discard(made.id)
                changed.append(self._end(made, Outcome.DROPPED, now, "what came before it was not wanted"))
            else:
                self._waiting[made.id] = made
                changed.append(made)
        return changed

    def restore(self, left: Iterable[Delivery], now: float, quiet: bool = False) -> list[Delivery]:
        """What an earlier process left behind is due at once, with the same ids; returns what changed.

        A beginning whose end was never told was of an incident that ended with that process.
        """
        changed: list[Delivery] = []
        found = sorted(left, key=lambda each: each.edge.at)
        newer, self._waiting = self._waiting, {}
        for delivery in found:
            if delivery.outcome is not None:
                continue
            if delivery.target in self._lanes:
                self._waiting[delivery.id] = msgspec.structs.replace(delivery, claimed=False, due_at=now)
            else:
                changed.append(self._end(delivery, Outcome.DROPPED, now, "its target is not configured any more"))
        self._waiting.update(newer)
        known = {delivery.id for delivery in found}
        for delivery in found:
            end = delivery_id(delivery.edge.incident, Status.RESOLVED, delivery.target)
            if delivery.edge.status is Status.FIRING and end not in known and delivery.outcome is not Outcome.DROPPED:
                over = msgspec.structs.replace(delivery.edge, status=Status.RESOLVED, at=now)
                changed += self.accept(over, [delivery.target] if delivery.target in self._lanes else [], now, quiet)
        return changed

    def next(self, now: float) -> list[Delivery]:
        """What is to be sent now: at most one for each target that has none under way."""
        found = (self._next_of(target, lane, now) for target, lane in self._lanes.items())
        return [delivery for delivery in found if delivery is not None]

    def wakes_at(self) -> float | None:
        """When the next one is due; None while only an attempt's end or a new edge changes anything."""
        times = [self._wakes_at(target, lane) for target, lane in self._lanes.items() if lane.under_way is None]
        return min((time for time in times if time is not None), default=None)

    def claim(self, delivery: Delivery) -> Delivery:
        """It is about to be sent; returns what to keep first."""
        self._lanes[delivery.target].under_way = delivery.id
        claimed = msgspec.structs.replace(delivery, claimed=True, attempts=delivery.attempts + 1)
        self._waiting[delivery.id] = claimed
        return claimed

    def settle(self, delivery: Delivery, result: Result, now: float, jitter: float) -> list[Delivery]:
        """What came of an attempt; returns what to keep before `release`."""
        lane = self._lanes[delivery.target]
        match result:
            case Received():
                return self._received(delivery, lane, now)
            case Failed():
                return self._failed(delivery, lane, result, now, jitter)
            case Unwanted():
                lane.gone = result.gone
                over = self._of(delivery.target) if result.gone else [delivery]
                return self._give_up(over, now, result.why)

    def release(self, target: str) -> None:
        """What came of its attempt is kept: it may be sent the next one."""
        self._lanes[target].under_way = None

    def snapshot(self) -> list[TargetStatus]:
        """Each target with what waits for it."""
        return [
            TargetStatus(
                name=target,
                waiting=len(waiting := self._of(target)),
                attempts=max((each.attempts for each in waiting), default=0),
                error=next((each.error for each in reversed(waiting) if each.error), None),
                next_at=self._wakes_at(target, lane),
                circuit_open=lane.probe_at is not None,
                gone=lane.gone,
            )
            for target, lane in self._lanes.items()
        ]

    def check_integrity(self) -> None:
        """Raises `AssertionError` when two rules contradict each other."""
        for target, lane in self._lanes.items():
            claimed = [each.id for each in self._of(target) if each.claimed]
            assert claimed in ([], [lane.under_way]), (target, claimed, lane)
            assert not (lane.gone and self._of(target)), target
        for delivery in self._waiting.values():
            assert delivery.outcome is None and delivery.target in self._lanes, delivery

    def _received(self, delivery: Delivery, lane: Lane, now: float) -> list[Delivery]:
        away = lane.failures > 0
        lane.failures, lane.probe_at, lane.resting_until = 0, None, 0.0
        if away:
            # It is back: what waits for a time that was guessed while it was away need not.
            for each in self._of(delivery.target):
                self._waiting[each.id] = msgspec.structs.replace(each, due_at=min(each.due_at, now))
        return [self._end(delivery, Outcome.DELIVERED, now)]

    def _failed(self, delivery: Delivery, lane: Lane, failed: Failed, now: float, jitter: float) -> list[Delivery]:
        lane.failures += 1
        if failed.after_s is not None:
            lane.resting_until = now + min(failed.after_s, self._retry_for_s)
        if lane.failures >= CIRCUIT_OPENS_AT:
            lane.probe_at = now + probe_after(lane.failures - CIRCUIT_OPENS_AT + 1, jitter)
        due_at = min(now + retry_after(delivery.attempts, jitter), max(now, delivery.give_up_at))
        again = msgspec.structs.replace(delivery, claimed=False, due_at=due_at, error=failed.why)
        self._waiting[again.id] = again
        late = [each for each in self._of(delivery.target) if now >= each.give_up_at]
        dropped = self._give_up(late, now, failed.why)
        return dropped if again in late else [again, *dropped]

    def _give_up(self, deliveries: Iterable[Delivery], now: float, why: str) -> list[Delivery]:
        """These, and of an incident whose beginning is among them the end too, whenever it comes."""
        over = {delivery.id: delivery for delivery in deliveries}
        for delivery in list(over.values()):
            if delivery.edge.status is Status.FIRING:
                end = delivery_id(delivery.edge.incident, Status.RESOLVED, delivery.target)
                if end in self._waiting:
                    over[end] = self._waiting[end]
                else:
                    self._unsaid.add(end)
        return [self._end(each, Outcome.DROPPED, now, why) for each in over.values()]

    def _next_of(self, target: str, lane: Lane, now: float) -> Delivery | None:
        if lane.under_way is not None or now < lane.resting_until:
            return None
        heads = self._heads(target)
        if lane.probe_at is not None:
            return heads[0] if heads and now >= lane.probe_at else None
        return next((each for each in heads if each.due_at <= now), None)

    def _wakes_at(self, target: str, lane: Lane) -> float | None:
        heads = self._heads(target)
        if not heads:
            return None
        due_at = lane.probe_at if lane.probe_at is not None else min(each.due_at for each in heads)
        return max(due_at, lane.resting_until)

    def _heads(self, target: str) -> list[Delivery]:
        """The oldest of each incident."""
        heads: dict[str, Delivery] = {}
        for each in self._of(target):
            if each.edge.incident not in heads or each.edge.status is Status.FIRING:
                heads[each.edge.incident] = each
        return list(heads.values())

    def _of(self, target: str) -> list[Delivery]:
        return [each for each in self._waiting.values() if each.target == target]

    def _end(self, delivery: Delivery, outcome: Outcome, now: float, error: str | None = None) -> Delivery:
        self._waiting.pop(delivery.id, None)
        return msgspec.structs.replace(
            delivery, claimed=False, outcome=outcome, ended_at=now, error=error or delivery.error
        )

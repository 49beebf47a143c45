"""Which request kills the engine: a pure state machine over crashes, and the list of those that are refused for it.

A request *strikes* when the engine crashes while it has it. Getting past the furthest place at which a crash found it
clears it, so a long stream that is in flight whenever a healthy engine is killed is never a suspect; at `SUSPECT_AT`
strikes without that it is one. Suspects are handed over one at a time, when nobody else that has struck is unproven in
the engine. At `ACCUSED_AT` strikes a request is condemned if it was alone in the engine at the last of them; if not, it
gets the next engine to itself, before everybody else. docs/decisions/0009-quarantine.md says why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec

from .entry import Order

SUSPECT_AT = 2
ACCUSED_AT = 3
MAX_REMEMBERED = 1024
"""Fingerprints that are refused at once; the oldest is forgotten for one more."""

_NOWHERE = -1


@dataclass
class _Case:
    """One request in flight; places count its sequence (prompt, then output) in tokens."""

    strikes: int = 0
    furthest: int = _NOWHERE
    """Where the crashes found it, at the furthest."""
    reached: int = _NOWHERE
    """Where it is in this incarnation."""
    in_engine: bool = False
    lost_with: int | None = None
    """How many others were in the engine that was lost, until it is known whether it crashed."""

    @property
    def suspect(self) -> bool:
        return self.strikes >= SUSPECT_AT

    @property
    def accused(self) -> bool:
        return self.strikes >= ACCUSED_AT

    @property
    def unproven(self) -> bool:
        """In the engine, with a strike that it has not got past."""
        return self.in_engine and self.strikes > 0


class Quarantine:
    """The cases of all requests that an engine has had."""

    def __init__(self) -> None:
        self._cases: dict[str, _Case] = {}

    def may_go(self, request_id: str) -> bool:
        """Whether it may be handed to the engine now."""
        if self.trying:
            case = self._cases.get(request_id)
            return case is not None and case.accused and not any(case.in_engine for case in self._cases.values())
        return not self.suspects(request_id) or not any(case.unproven for case in self._cases.values())

    @property
    def trying(self) -> bool:
        """Whether the engine is, or is to be, one accused request's alone."""
        return any(case.accused for case in self._cases.values())

    def handed_over(self, request_id: str) -> None:
        case = self._cases.setdefault(request_id, _Case())
        case.in_engine = True
        case.reached = _NOWHERE

    def reached(self, request_id: str, place: int) -> bool:
        """It got to `place` in its sequence; returns whether that clears it, so that others may have their turn."""
        case = self._cases[request_id]
        case.reached = max(case.reached, place)
        if case.strikes == 0 or place <= case.furthest:
            return False
        case.strikes = 0
        return True

    def taken_back(self, request_id: str) -> None:
        """The engine did not take it after all."""
        self._cases[request_id].in_engine = False

    def ended(self, request_id: str) -> None:
        self._cases.pop(request_id, None)

    def lost(self) -> None:
        """The engine is gone. Who shared it is noted now: some of them may have left before it is known why."""
        present = [case for case in self._cases.values() if case.in_engine]
        for case in present:
            case.in_engine = False
            case.lost_with = len(present) - 1

    def judged(self, crash: bool) -> list[str]:
        """Whether the engine that was lost had crashed; returns who is condemned for it."""
        condemned = []
        for request_id, case in self._cases.items():
            if case.lost_with is None:
                continue
            if crash:
                case.strikes = case.strikes + 1 if case.reached <= case.furthest else 1
                case.furthest = max(case.furthest, case.reached)
                if case.accused and case.lost_with == 0:
                    condemned.append(request_id)
            case.lost_with = None
        return condemned

    def suspects(self, request_id: str) -> bool:
        """Whether this one is under suspicion."""
        case = self._cases.get(request_id)
        return case is not None and case.suspect

    def check_integrity(self, in_flight: Collection[str]) -> None:
        """Raise `AssertionError` when a crash could not be told to be whose."""
        assert self._cases.keys() <= set(in_flight), "cases of requests that have ended"
        present = [case for case in self._cases.values() if case.in_engine]
        assert sum(case.suspect for case in present) <= 1, "several suspects in the engine at once"
        assert len(present) <= 1 or not any(case.accused for case in present), "an accused that is not alone"


class Fingerprints:
    """What was condemned and is refused for `duration_s`: bounded, oldest out first. The clock is in seconds."""

    def __init__(self, duration_s: float, clock: Callable[[], float]) -> None:
        self._duration_s = duration_s
        self._clock = clock
        self._until: dict[bytes, float] = {}

    def add(self, order: Order) -> None:
        mark = fingerprint(order)
        self._until.pop(mark, None)
        self._until[mark] = self._clock() + self._duration_s
        if len(self._until) > MAX_REMEMBERED:
            del self._until[next(iter(self._until))]

    def refused_for(self, order: Order) -> float | None:
        """Seconds for which an order like this is refused, None when it is not."""
        if not self._until:
            return None
        left = self._until.get(fingerprint(order), 0.0) - self._clock()
        return left if left > 0 else None


def fingerprint(order: Order) -> bytes:
    """What makes two orders the same work: all but the seed, the identity and the owner."""
    sampling = msgspec.structs.replace(order.sampling, seed=0)
    return hashlib.sha256(msgspec.msgpack.encode((order.prompt, sampling, order.grammar, order.max_tokens))).digest()

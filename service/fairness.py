"""Who goes next among those who wait: one line a client, served in turn by the work that each has had.

Start-time fair queueing (Goyal, Vin and Cheng, 1996): the line that has had the least work goes next, so a client with
one short request does not wait behind another's hundred. Interactive requests go before batch ones, but for a share of
the turns. Pure: no clock, no effects.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..engine.protocol import Priority
from .allowance import UNBOUNDED, Allowance

COST_OF_A_REQUEST = 256
"""What a request costs beside its prompt, in tokens: its output, whose length nobody knows."""

BATCH_EVERY = 8
"""While both kinds wait, each so-manyth turn is a batch request's, so that none waits for ever."""


@dataclass(frozen=True)
class Caller:
    """Who a request is from; `key` is the same for all requests of one client."""

    key: str
    priority: Priority = Priority.INTERACTIVE
    allowance: Allowance = UNBOUNDED
    use_prefix_cache: bool = True


class FairQueue:
    """Requests that wait, by id."""

    def __init__(self) -> None:
        self._interactive = _Lines()
        self._batch = _Lines()
        self._waiting: dict[str, tuple[Caller, int]] = {}
        self._passed_over = 0
        """Turns that batch requests waited through since one of them had its own."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def tokens(self) -> int:
        """Prompt tokens of all that wait."""
        return sum(tokens for _, tokens in self._waiting.values())

    def push(self, caller: Caller, request_id: str, tokens: int) -> None:
        self._waiting[request_id] = (caller, tokens)
        self._lines(caller).push(caller.key, request_id, tokens)

    def pop(self) -> str | None:
        """Take out who goes next; None when nobody waits."""
        if self._passed_over < BATCH_EVERY - 1 and (request_id := self._interactive.pop()) is not None:
            self._passed_over = self._passed_over + 1 if self._batch else 0
        else:
            self._passed_over = 0
            request_id = self._batch.pop() or self._interactive.pop()
        if request_id is not None:
            del self._waiting[request_id]
        return request_id

    def discard(self, request_id: str) -> None:
        """Forget a request, if it waits."""
        caller, _ = self._waiting.pop(request_id, (None, 0))
        if caller is not None:
            self._lines(caller).discard(caller.key, request_id)

    def giving_way_to(self, key: str) -> str | None:
        """The newest request of the client that has most waiting; None unless `key` would still have fewer."""
        held = Counter(caller.key for caller, _ in self._waiting.values())
        if not held:
            return None
        heaviest, most = held.most_common(1)[0]
        if most <= held[key] + 1:
            return None
        return next(each for each, (caller, _) in reversed(self._waiting.items()) if caller.key == heaviest)

    def _lines(self, caller: Caller) -> _Lines:
        return self._interactive if caller.priority is Priority.INTERACTIVE else self._batch


@dataclass
class _Line:
    """What one client has waiting, oldest first, with its tokens; `served` is the work it has had, in tokens."""

    served: float
    waiting: dict[str, int] = field(default_factory=dict)


class _Lines:
    """The lines of one priority."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._now = 0.0

    def __bool__(self) -> bool:
        return any(line.waiting for line in self._lines.values())

    def push(self, key: str, request_id: str, tokens: int) -> None:
        line = self._lines.setdefault(key, _Line(self._now))
        if not line.waiting:
            # Nobody saves up turns by staying away.
            line.served = max(line.served, self._now)
        line.waiting[request_id] = tokens

    def pop(self) -> str | None:
        waiting = [line for line in self._lines.values() if line.waiting]
        if not waiting:
            return None
        line = min(waiting, key=lambda line: line.served)
        request_id = next(iter(line.waiting))
        self._now = line.served
        line.served += line.waiting.pop(request_id) + COST_OF_A_REQUEST
        self._forget_the_even()
        return request_id

    def discard(self, key: str, request_id: str) -> None:
        self._lines[key].waiting.pop(request_id, None)
        self._forget_the_even()

    def _forget_the_even(self) -> None:
        """Drop the lines of clients who have nothing waiting and nothing to make up for."""
        if not self:
            self._lines.clear()
            return
        even = [key for key, line in self._lines.items() if not line.waiting and line.served <= self._now]
        for key in even:
            del self._lines[key]

"""Which rows prefill and which decode in the next step: a pure state machine, no MLX, no clock of its own.

A row is one request inside the engine. Its sequence (prompt, then the ids it already emitted) is prefilled up to the
last token; that last token is the input of its first decode step. Decode steps are launched one ahead of reading
their result, so a row's launches are counted here and its tokens are counted by whoever reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

AGEING_TOKENS_PER_S = 200.0
"""A waiting prefill gains this much on shorter ones for each second it has waited, so that none starves."""


@dataclass(slots=True)
class Row:
    """One request's place in the schedule, in tokens."""

    id: str
    prefill: int
    """Tokens to compute before the first decode step."""
    budget: int
    """Tokens the row may still produce."""
    arrived_at: float
    prefilled: int = 0
    launched: int = 0

    @property
    def prefill_left(self) -> int:
        return self.prefill - self.prefilled

    @property
    def wants_decode(self) -> bool:
        return self.prefill_left == 0 and self.launched < self.budget


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one row's prefill."""

    id: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What the next step does: rows that become running, rows that decode one token, prefill chunks."""

    admit: tuple[str, ...]
    decode: tuple[str, ...]
    prefill: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Prompt tokens of one step: while nothing decodes, and while streams would feel the pause."""

    idle: int
    busy: int


class Scheduler:
    """Rows waiting and running. `plan` decides; `apply` records it, before anything can end one of its rows."""

    def __init__(self, max_running: int, max_waiting: int, chunks: ChunkSizes) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._chunks = chunks
        self._waiting: dict[str, Row] = {}
        self._running: dict[str, Row] = {}

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._running

    def can_add(self) -> bool:
        """Whether the queue has room, counting rows that the next step will admit."""
        return self.waiting < self._max_waiting + self._max_running - self.running

    def add(self, row: Row) -> None:
        """Queue a new row; its id must be new and `can_add` true."""
        assert row.id not in self._waiting and row.id not in self._running, f"row {row.id} is already here"
        assert self.can_add(), "the queue is full"
        self._waiting[row.id] = row

    def remove(self, row_id: str) -> bool:
        """Forget a row, wherever it is; returns whether it was running."""
        self._waiting.pop(row_id, None)
        return self._running.pop(row_id, None) is not None

    def plan(self, now: float) -> StepPlan:
        """The next step at monotonic time `now`, in seconds."""
        admitted = list(self._waiting.values())[: max(0, self._max_running - self.running)]
        rows = [*self._running.values(), *admitted]
        decode = tuple(row.id for row in rows if row.wants_decode)
        size = self._chunks.busy if decode else self._chunks.idle
        return StepPlan(
            admit=tuple(row.id for row in admitted),
            decode=decode,
            prefill=tuple(self._fill(size, (row for row in rows if row.prefill_left), now)),
        )

    def apply(self, plan: StepPlan) -> None:
        """Record that `plan` is being carried out."""
        for row_id in plan.admit:
            self._running[row_id] = self._waiting.pop(row_id)
        for row_id in plan.decode:
            self._running[row_id].launched += 1
        for chunk in plan.prefill:
            self._running[chunk.id].prefilled += chunk.count

    def check_integrity(self) -> None:
        """Raise `AssertionError` when the counts contradict each other."""
        assert not self._waiting.keys() & self._running.keys(), "a row waits and runs"
        assert self.running <= self._max_running, f"{self.running} rows run, {self._max_running} may"
        for row in self._running.values():
            assert 0 <= row.prefilled <= row.prefill, f"row {row.id} prefilled {row.prefilled} of {row.prefill}"
            assert row.launched <= row.budget, f"row {row.id} launched {row.launched} of {row.budget}"
            assert not (row.launched and row.prefill_left), f"row {row.id} decodes before its prefill is done"

    @staticmethod
    def _fill(size: int, rows: Iterable[Row], now: float) -> Iterable[Chunk]:
        """Share `size` tokens among prefilling rows, the shortest remainder first, with ageing."""
        for row in sorted(rows, key=lambda row: row.prefill_left - AGEING_TOKENS_PER_S * (now - row.arrived_at)):
            count = min(size, row.prefill_left)
            if count == 0:
                return
            yield Chunk(row.id, row.prefilled, count)
            size -= count

"""Which tokens of which rows the next step computes: a pure state machine, no MLX, no clock of its own.

A row is one request inside the engine: a known sequence (prompt, then the ids it already emitted) and the tokens that
follow it. One step computes a chunk of each row's tokens. Whatever chunk reaches the end of the known sequence draws
the next token, which is the one token of that row's next chunk: prefill and decode differ only in how much is known.

A step is launched before the result of the one before it is read, so what was launched is counted here, and what was
drawn is counted by whoever reads it.

Rows have a rank that never changes (`Row.rank`), and the row of the first rank is neither passed by one that needs
room too nor preempted. So it ends, then the next one is first, and every row ends, however little memory there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .protocol import Priority, Tighten

AGEING_TOKENS_PER_S = 200.0
"""A waiting prefill gains this much on shorter ones for each second it has waited, so that none starves."""

BATCH_PATIENCE_S = 60.0
"""A batch request goes before an interactive one only if it came so much earlier."""


ChunkSize = Callable[[Sequence[int], Sequence[int]], int]


@dataclass(slots=True)
class Row:
    """One request's place in the schedule, in tokens."""

    id: str
    known: int
    """Tokens of the sequence it came with; at least one."""
    budget: int
    """Tokens it may still draw."""
    arrived_at: float
    priority: Priority = Priority.INTERACTIVE
    computed: int = 0
    order: int = 0
    """Among all rows that ever came; given by the scheduler."""

    @property
    def rank(self) -> tuple[float, int]:
        """Smallest first. It stands still while time goes on: waiting makes every row more urgent alike."""
        return self.arrived_at + (BATCH_PATIENCE_S if self.priority is Priority.BATCH else 0.0), self.order

    @property
    def prefill_left(self) -> int:
        return max(0, self.known - self.computed)

    @property
    def drawn(self) -> int:
        return max(0, self.computed - self.known + 1)

    @property
    def decodes(self) -> bool:
        return self.prefill_left == 0 and self.drawn < self.budget


@dataclass(frozen=True, slots=True)
class Chunk:
    """`count` tokens of one row from index `start`.

    `draws` is how many tokens may be drawn at its end: none for a piece that does not reach the end of what is known,
    else all that the row may still draw. One is drawn for certain, more where drafts are accepted.
    """

    id: str
    start: int
    count: int
    draws: int
    decodes: bool = False
    """It is a token that was drawn, not a piece of what the row came with."""

    @property
    def attended(self) -> int:
        """How many tokens each of its tokens attends to, summed up."""
        return self.count * self.start + self.count * (self.count + 1) // 2


class Scheduler:
    """Rows waiting and running. `plan` decides; `apply` records it, before anything can end one of its rows.

    `chunk_size(decoding, prefilling)` says how many prompt tokens a step may compute beside streams of such lengths,
    for prompts of which so much is computed.
    """

    def __init__(self, max_running: int, max_waiting: int, chunk_size: ChunkSize) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._chunk_size = chunk_size
        self._limits = Tighten()
        self._waiting: dict[str, Row] = {}
        self._running: dict[str, Row] = {}
        self._arrivals = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def waiting_ids(self) -> list[str]:
        return list(self._waiting)

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
        self._arrivals += 1
        row.order = self._arrivals
        self._waiting[row.id] = row

    def tighten(self, limits: Tighten) -> None:
        """Bound rows and chunks from now on; running rows above the bound end in their own time."""
        self._limits = limits

    def remove(self, row_id: str) -> None:
        """Forget a row, wherever it is."""
        self._waiting.pop(row_id, None)
        self._running.pop(row_id, None)

    def admit(self, should_wait: Callable[[str], bool], fits: Callable[[str], bool]) -> str | None:
        """Let the first row run that need not wait, if there is a place and such a row; what is returned runs now.

        None passes a row for which there is no room. A row alone has room. One at a time: whether the next had better
        wait may depend on what this one is about to compute.
        """
        if self.running >= min(self._max_running, self._limits.max_running or self._max_running):
            return None
        ranked = sorted(self._waiting.values(), key=_rank)
        first = next((row for row in ranked if not should_wait(row.id)), None)
        if first is None or (self._running and not fits(first.id)):
            return None
        self._running[first.id] = self._waiting.pop(first.id)
        return first.id

    def victim(self) -> str | None:
        """Who gives up its KV when there is not enough: the running row of the last rank, but never the only one."""
        return max(self._running.values(), key=_rank).id if self.running > 1 else None

    def preempted(self, row_id: str, known: int) -> None:
        """A running row has lost all that was computed of it and waits again, now with `known` tokens.

        All that it drew must have been read.
        """
        row = self._running.pop(row_id)
        row.budget -= known - row.known
        row.known, row.computed = known, 0
        self._waiting[row_id] = row

    def found(self, row_id: str, tokens: int) -> None:
        """A row that was just admitted has its first `tokens` computed already; at least one is left."""
        row = self._running[row_id]
        assert row.computed == 0 and tokens < row.known, f"row {row_id} found {tokens} of {row.known} tokens"
        row.computed = tokens

    def plan(self) -> tuple[Chunk, ...]:
        """What the next step computes; decoding rows first."""
        rows = self._running.values()
        decode = [Chunk(row.id, row.computed, 1, row.budget - row.drawn, decodes=True) for row in rows if row.decodes]
        prefill = [row for row in rows if row.prefill_left]
        size = self._chunk_size([chunk.start for chunk in decode], [row.computed for row in prefill])
        return (*decode, *self._fill(min(size, self._limits.chunk_tokens or size), prefill))

    def apply(self, chunks: Iterable[Chunk]) -> None:
        """Record that these chunks are being computed."""
        for chunk in chunks:
            self._running[chunk.id].computed += chunk.count

    def credit(self, row_id: str, accepted: int) -> None:
        """A running row drew `accepted` tokens more than the one that its step was sure of."""
        self._running[row_id].computed += accepted

    def check_integrity(self) -> None:
        """Raise `AssertionError` when the counts contradict each other."""
        assert not self._waiting.keys() & self._running.keys(), "a row waits and runs"
        assert self.running <= self._max_running, f"{self.running} rows run, {self._max_running} may"
        for row in self._running.values():
            assert row.drawn <= row.budget, f"row {row.id} drew {row.drawn} of {row.budget}"
        for row in self._waiting.values():
            assert row.computed == 0, f"row {row.id} computed {row.computed} tokens while it waited"

    @staticmethod
    def _fill(size: int, rows: Iterable[Row]) -> Iterable[Chunk]:
        """Share `size` tokens among prefilling rows, the shortest remainder first, with ageing."""
        for row in sorted(rows, key=lambda row: row.prefill_left + AGEING_TOKENS_PER_S * row.rank[0]):
            count = min(size, row.prefill_left)
            if count == 0:
                return
            yield Chunk(row.id, row.computed, count, draws=row.budget if count == row.prefill_left else 0)
            size -= count


def _rank(row: Row) -> tuple[float, int]:
    return row.rank

"""A simulated engine, its faults, and the watchdog that starts it again by the real restart policy.

The engine is an `EngineClient` for the ledger. A step computes a chunk of each row's prompt or a few tokens; a poisoned
row kills the engine when the step would compute its place. What a watchdog sees of a hang is modelled by its outcome:
after `STALL_S` without a step the engine is killed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from stoker.config import Restart
from stoker.engine.client import EngineListener
from stoker.engine.protocol import (
    Finished,
    FinishReason,
    Limits,
    Prefill,
    Ready,
    RejectCode,
    Rejected,
    RequestEvent,
    Submit,
    Timings,
    Tokens,
)
from stoker.watchdog.restart import Past, decide
from tests.simulation.clock import Clock

LIMITS = Limits(max_running=4, max_waiting=4, context_tokens=4096)
RESTART = Restart()
STEP_S = 0.4
LOAD_S = 3.0
STALL_S = 10.0
RECONNECT_S = 0.05
CHUNK = 128
TOKENS_A_STEP = 8
NO_TIME = Timings(queue_s=0.0, prefill_s=0.0, decode_s=0.0, computed_tokens=0)


def token(request: int, position: int) -> int:
    """The one right output token of a request at a position."""
    return (request * 7919 + position * 104729) % 9973


@dataclass(frozen=True)
class Work:
    """What an engine finds in a request: its whole output's length, and the place in its sequence that kills."""

    number: int
    length: int
    poison: int | None


@dataclass
class Row:
    """A request inside the engine; places count its sequence, prompt first."""

    submit: Submit
    work: Work
    place: int = 0

    @property
    def known(self) -> int:
        return len(self.submit.prompt) + len(self.submit.emitted)

    @property
    def end(self) -> int:
        return len(self.submit.prompt) + min(self.work.length, self.submit.max_tokens)

    def next_place(self) -> int:
        """Where the next step gets it to."""
        if self.place < self.known:
            return min(self.place + CHUNK, self.known)
        return min(self.place + TOKENS_A_STEP, self.end)


class Condition(Enum):
    """What the engine process is doing."""

    AWAY = "away"
    LOADING = "loading"
    READY = "ready"
    HUNG = "hung"


@dataclass
class Faults:
    """What goes wrong now; changed from outside while the simulation runs."""

    slowness: float = 1.0
    repeats: float = 0.0
    """Share of events that are delivered twice."""
    refusals: float = 0.0
    """Share of submissions that are refused as if the queue were full."""
    failing_loads: int = 0
    """So many of the next loads end in death."""


@dataclass
class Machine:
    """The engine process and its supervisor. `work_of` looks a submission's work up."""

    clock: Clock
    random: random.Random
    work_of: Callable[[Submit], Work]
    circuit: Callable[[bool], None]
    """Told when the restart circuit opens and closes."""
    faults: Faults = field(default_factory=Faults)
    ready: Ready | None = None
    condition: Condition = Condition.AWAY
    incarnation: int = 0
    starts: list[float] = field(default_factory=list)
    """When an engine was started after a death."""
    deaths_of_poison: Counter[int] = field(default_factory=Counter)
    """Engines killed by each poisoned request, but those that were about to end anyway."""
    stuck_alone: set[int] = field(default_factory=set)
    """Who was the only one in an engine that died."""
    _rows: dict[str, Row] = field(default_factory=dict)
    _past: Past = field(default_factory=Past)
    _ready_at: float | None = None
    _stepping: bool = False
    _draining: bool = False
    _listener: EngineListener | None = None

    def listen(self, listener: EngineListener) -> None:
        self._listener = listener

    def submit(self, request: Submit) -> None:
        assert self.ready is not None, "submitted to an engine that is away"
        self._later(0.0, lambda: self._take(request))

    def cancel(self, request_id: str) -> None:
        self._later(0.0, lambda: self._let_go(request_id))

    def start(self) -> None:
        """A new process; it loads, and is ready if nothing happens."""
        self.incarnation += 1
        self.condition = Condition.LOADING
        if self.faults.failing_loads > 0:
            self.faults.failing_loads -= 1
            self._later(LOAD_S / 2, self.die)
        self._later(LOAD_S, self._loaded)

    def die(self) -> None:
        """By a signal, a crash, or the watchdog's hand."""
        if self.condition is Condition.AWAY:
            return
        if len(self._rows) == 1:
            self.stuck_alone |= {row.work.number for row in self._rows.values()}
        self._vanish("it died")
        ready_for_s = 0.0 if self._ready_at is None else self.clock() - self._ready_at
        decision = decide(self._past, self.clock(), ready_for_s, RESTART, self.random.random())
        self._past, self._ready_at = decision.past, None
        self.circuit(self._past.circuit_open)
        self._later(decision.wait_s, self._start_again)

    def hang(self) -> None:
        """Stop stepping; who watches sees it once work has been pending for long enough."""
        if self.condition is Condition.READY:
            self.condition = Condition.HUNG
            self._watch_for_a_stall()

    def restart_on_purpose(self) -> None:
        """Drain for a moment, end, and start again without any wait."""
        if self.condition is Condition.READY and self.ready is not None:
            self._draining = True
            self._heard.engine_draining()
            self._later(self.random.uniform(0.0, 5.0), self._replace)

    def lose_connection(self) -> None:
        """A broken frame: the process lives on, and its connection's requests are dropped."""
        if self.condition is Condition.READY and self.ready is not None:
            ready = self.ready
            self._rows.clear()
            self.ready = None
            self._heard.engine_lost("a frame was broken")
            self._later(RECONNECT_S, lambda: self._say_ready(ready))

    @property
    def _heard(self) -> EngineListener:
        assert self._listener is not None, "listen comes first"
        return self._listener

    def _later(self, seconds: float, event: Callable[[], object]) -> None:
        """`event`, unless the process is another one by then."""
        incarnation = self.incarnation

        def happen() -> None:
            if self.incarnation == incarnation:
                event()

        self.clock.after(seconds, happen)

    def _vanish(self, reason: str) -> None:
        self.incarnation += 1
        self.condition = Condition.AWAY
        rows, self._rows = self._rows, {}
        was_ready, self.ready = self.ready, None
        self._stepping = self._draining = False
        if was_ready is not None:
            self._heard.engine_lost(reason)
            for row in rows.values():
                # The last words of the dead are about requests that nobody has any more.
                self._heard.engine_event(Tokens(row.submit.id, 0, [-1]))

    def _start_again(self) -> None:
        self.starts.append(self.clock())
        self.start()

    def _replace(self) -> None:
        self._vanish("it ended on purpose")
        self.start()

    def _loaded(self) -> None:
        self.condition = Condition.READY
        self._ready_at = self.clock()
        self.circuit(False)
        self._say_ready(Ready(epoch=self.incarnation, pid=1, model="simulated", limits=LIMITS))

    def _say_ready(self, ready: Ready | None) -> None:
        self.ready = ready
        if ready is not None:
            self._heard.engine_ready(ready)

    def _take(self, submit: Submit) -> None:
        if self.ready is None:
            return
        full = len(self._rows) >= LIMITS.max_running + LIMITS.max_waiting
        if full or self.random.random() < self.faults.refusals:
            self._say(Rejected(submit.id, RejectCode.QUEUE_FULL, "it is full"))
            return
        assert submit.id not in self._rows, "the engine has it already"
        self._rows[submit.id] = Row(submit, self.work_of(submit))
        if self.condition is Condition.HUNG:
            self._watch_for_a_stall()
        elif not self._stepping:
            self._stepping = True
            self._later(STEP_S * self.faults.slowness, self._step)

    def _let_go(self, request_id: str) -> None:
        if self.condition is Condition.READY and self._rows.pop(request_id, None) is not None:
            self._heard.engine_event(Finished(request_id, FinishReason.CANCELLED, NO_TIME))

    def _watch_for_a_stall(self) -> None:
        if self._rows:
            self._later(STALL_S, self.die)

    def _step(self) -> None:
        self._stepping = False
        if self.condition is not Condition.READY:
            return
        computed = list(self._rows.values())[: LIMITS.max_running]
        for row in computed:
            if row.work.poison is not None and row.place <= row.work.poison < max(row.next_place(), row.place + 1):
                self.deaths_of_poison[row.work.number] += not self._draining
                self.die()
                return
        for row in computed:
            if row.submit.id in self._rows:
                self._advance(row)
        if self._rows and not self._stepping:
            self._stepping = True
            self._later(STEP_S * self.faults.slowness, self._step)

    def _advance(self, row: Row) -> None:
        name, before, row.place = row.submit.id, row.place, row.next_place()
        if before < row.known:
            self._say(Prefill(name, row.place, row.known, 0))
            return
        first = before - len(row.submit.prompt)
        last = row.place - len(row.submit.prompt)
        if first < last:
            self._say(Tokens(name, first, [token(row.work.number, position) for position in range(first, last)]))
        if row.place >= row.end and self._rows.pop(name, None) is not None:
            reason = FinishReason.STOP if row.work.length < row.submit.max_tokens else FinishReason.LENGTH
            self._say(Finished(name, reason, NO_TIME))

    def _say(self, event: RequestEvent) -> None:
        self._heard.engine_event(event)
        if self.random.random() < self.faults.repeats:
            self._heard.engine_event(event)

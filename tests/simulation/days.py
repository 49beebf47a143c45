"""One run: some days of bursts, faults and restarts, then quiet; and what must have been true all the time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from stoker.config import Server
from stoker.engine.protocol import FinishReason
from stoker.service.admission import Shed, ShedLevel
from stoker.service.door import Door
from stoker.service.errors import RequestQuarantined
from stoker.service.ledger import Ledger
from stoker.service.metrics import Metrics
from stoker.service.quarantine import ACCUSED_AT
from stoker.service.readings import LedgerReadings
from stoker.watchdog.restart import PROBE_MAX_S
from tests.simulation.clock import Clock
from tests.simulation.machine import RESTART, Machine
from tests.simulation.visitors import Visitors

SERVER = Server(max_queue=48, max_queue_tokens=8000, shed_long_prompt_tokens=300)
TICK_S = 5.0
MEAN_PAUSE_S = 5400.0
"""Between two bursts of requests."""
QUIET_S = 2 * PROBE_MAX_S + SERVER.resume_deadline_s
"""Without new faults, in this time every circuit has closed and every request has ended."""
LONGEST_SILENCE_S = SERVER.queue_deadline_s + SERVER.resume_deadline_s + 60.0
"""One that was about to have its turn when its engine died waits for both; the rest is steps and restarts."""
NOTHING_SHORT = Shed(ShedLevel.NONE, "nothing is short")
NO_ENGINE = Shed(ShedLevel.ALL, "the engine does not stay up")


@dataclass(frozen=True)
class Report:
    """What happened in one run."""

    seed: int
    finished: int
    refused: int
    quarantined: int
    ended: int
    starts: int


class Days:
    """A simulated machine with its visitors."""

    def __init__(self, seed: int, hours: float) -> None:
        self._seed = seed
        self._end = hours * 3600.0
        self.random = random.Random(seed)
        self.clock = Clock()
        self.ledger = Ledger(LedgerReadings(Metrics()), SERVER, self.clock)
        self.door = Door(SERVER, self.ledger, text_ready=lambda: True, on_refusal=lambda code: None)
        self.visitors = Visitors(self.clock, self.random, self.door, self.ledger)
        self.machine = Machine(self.clock, self.random, self.visitors.work_of, self._circuit)
        self.ledger.connect(self.machine)
        self.machine.listen(self.ledger)
        self._ticking = False

    def run(self) -> Report:
        """Raises `AssertionError` when something is true that never may be."""
        self.machine.start()
        self._next_burst()
        self.clock.run_until(self._end)
        self.machine.faults.failing_loads = 0
        self.clock.run_until(self._end + QUIET_S)
        self._check_the_end()
        return self._report()

    def _next_burst(self) -> None:
        self.clock.after(self.random.expovariate(1 / MEAN_PAUSE_S), self._burst)

    def _burst(self) -> None:
        """Requests within a minute, and perhaps faults in the midst of them."""
        if self.clock() >= self._end:
            return
        size = 200 if self.random.random() < 0.02 else self.random.randrange(1, 25)
        poisoned = self.random.random() < 0.15
        for number in range(size):
            self.clock.after(self.random.uniform(0, 60), partial(self._come, poisoned and number < 2))
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 8))):
            self.clock.after(self.random.uniform(0, 120), self._fault)
        self._next_burst()

    def _come(self, poisoned: bool) -> None:
        self.visitors.come(poisoned=poisoned)
        if not self._ticking:
            self._ticking = True
            self.clock.after(TICK_S, self._tick)

    def _fault(self) -> None:
        if self.clock() >= self._end:
            return
        machine = self.machine
        kinds: list[Callable[[], None]] = [
            *[machine.die] * 4,
            machine.hang,
            machine.restart_on_purpose,
            machine.lose_connection,
            self._slow_for_a_while,
            self._repeat_for_a_while,
            self._refuse_for_a_while,
            self._fail_to_load,
            self._shed_for_a_while,
        ]
        self.random.choice(kinds)()

    def _slow_for_a_while(self) -> None:
        self.machine.faults.slowness = self.random.uniform(2.0, 12.0)
        self.clock.after(90.0, lambda: setattr(self.machine.faults, "slowness", 1.0))

    def _repeat_for_a_while(self) -> None:
        self.machine.faults.repeats = 0.3
        self.clock.after(90.0, lambda: setattr(self.machine.faults, "repeats", 0.0))

    def _refuse_for_a_while(self) -> None:
        self.machine.faults.refusals = self.random.uniform(0.2, 1.0)
        self.clock.after(90.0, lambda: setattr(self.machine.faults, "refusals", 0.0))

    def _fail_to_load(self) -> None:
        self.machine.faults.failing_loads = self.random.randrange(1, 9)
        self.machine.die()

    def _shed_for_a_while(self) -> None:
        self.door.shed = Shed(ShedLevel(self.random.randrange(1, 4)), "memory is short")
        self.clock.after(60.0, lambda: setattr(self.door, "shed", NOTHING_SHORT))

    def _circuit(self, is_open: bool) -> None:
        self.door.shed = NO_ENGINE if is_open else NOTHING_SHORT

    def _tick(self) -> None:
        self.ledger.tick()
        self.ledger.check_integrity()
        for visitor in self.visitors.inside.values():
            silence = self.clock() - visitor.last_news
            assert silence <= LONGEST_SILENCE_S, f"{visitor.order.id} has heard nothing for {silence:.0f} s"
        self._ticking = bool(self.visitors.inside)
        if self._ticking:
            self.clock.after(TICK_S, self._tick)

    def _check_the_end(self) -> None:
        snapshot = self.ledger.snapshot()
        left = snapshot.waiting + snapshot.queued + snapshot.running + snapshot.suspended + snapshot.paused
        assert left == 0, f"left in the ledger: {snapshot}"
        assert not self.visitors.inside, "somebody still waits"
        assert self.door.shed == NOTHING_SHORT, f"still shedding: {self.door.shed}"
        self._check_blame()
        self._check_restarts()
        self._check_that_it_serves()

    def _check_blame(self) -> None:
        for visitor in self.visitors.ended:
            if isinstance(visitor.end, RequestQuarantined) and visitor.work.poison is None:
                assert visitor.work.number in self.machine.stuck_alone, f"{visitor.order.id} is innocent"
        for number, deaths in self.machine.deaths_of_poison.items():
            assert deaths <= ACCUSED_AT + 1, f"request {number} killed {deaths} engines"

    def _check_restarts(self) -> None:
        starts = self.machine.starts
        # The circuit's first probe may fall into the window of the restarts that opened it.
        most = RESTART.intensity + 2
        for first, last in zip(starts, starts[most:], strict=False):
            assert last - first > RESTART.period_s, f"{most + 1} restarts within {last - first:.0f} s"

    def _check_that_it_serves(self) -> None:
        visitor = self.visitors.come(patient=True)
        self.clock.run_until(self.clock() + 600.0)
        assert visitor is not None, "the one who came at the end was sent off"
        assert visitor.end is not None, "the one who came at the end got no answer"
        assert not isinstance(visitor.end, Exception), f"the one who came at the end got {visitor.end!r}"

    def _report(self) -> Report:
        ends = [visitor.end for visitor in self.visitors.ended]
        return Report(
            seed=self._seed,
            finished=sum(isinstance(end, FinishReason) for end in ends),
            refused=self.visitors.refused,
            quarantined=sum(isinstance(end, RequestQuarantined) for end in ends),
            ended=len(ends),
            starts=len(self.machine.starts),
        )

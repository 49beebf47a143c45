"""The load of a run on the tree of this machine: the load client, with reference questions, behind everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .lag import lag_of
from .load import drive
from .outcome import Outcome
from .plan import Plan
from .references import WithReferences
from .target import Target
from .workloads import workload
from .workloads.arrivals import Closed

PROBE_S = 0.1


class Asking:
    """Asks what a plan says."""

    def __init__(self, target: Target, plan: Plan) -> None:
        self._target = target
        self._plan = plan
        self._late: list[float] = []

    async def ask(self, number: int, on_outcome: Callable[[Outcome], None], clock: Callable[[], float]) -> None:
        """Until cancelled."""
        plan = self._plan
        arrivals = None if plan.streams is None else Closed(plan.streams)
        # Another process of the run, another seed: what was asked before would be found in the prefix cache.
        asked = WithReferences(workload(plan.workload, plan.seed + number, arrivals, plan.scale))
        probing = asyncio.create_task(self._watch_lag())
        try:
            await drive(self._target, asked, on_outcome=on_outcome, clock=clock)
        finally:
            probing.cancel()

    async def _watch_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PROBE_S
            await asyncio.sleep(PROBE_S)
            self._late.append(max(0.0, loop.time() - due))

    def lag_s(self) -> float:
        """At p99; what was seen so far is forgotten."""
        late, self._late = self._late, []
        return lag_of(late).p99_s

"""What the step thread measures of itself and puts into its readings: steps, their time and tokens, memory."""

from __future__ import annotations

from collections.abc import Callable

from .batch import Batch
from .counts import Counts
from .link import Reading
from .scheduler import Scheduler

MEMORY_READING_PERIOD_S = 0.25


class Meter:
    """Filled by the loop, on whose thread it lives; `reading` makes what another thread may hold on to."""

    def __init__(self, batch: Batch, scheduler: Scheduler, clock: Callable[[], float]) -> None:
        self._batch = batch
        self._scheduler = scheduler
        self._clock = clock
        self._steps = 0
        self._busy_s = 0.0
        self._progress_at = clock()
        self._memory = batch.memory()
        self._tiers = batch.tiers()
        self._memory_read_at = clock()
        self.counts = Counts()
        self.computed_tokens = 0
        self.preemptions = 0

    def work_came(self) -> None:
        """To an idle loop: what came before is no measure of how long the next step takes."""
        self._progress_at = self._clock()

    def stepped(self, began: float) -> None:
        """A step that began then is over."""
        self._steps += 1
        self._progress_at = self._clock()
        self._busy_s += self._progress_at - began

    def read_memory(self) -> None:
        """Now, and not when it is due again."""
        self._memory = self._batch.memory()
        self._tiers = self._batch.tiers()
        self._memory_read_at = self._clock()

    def reading(self, tokens_under_way: int) -> Reading:
        """With memory as it was a moment ago; an idle loop reads no more until work comes, so it reads it now."""
        if self._scheduler.idle or self._clock() - self._memory_read_at >= MEMORY_READING_PERIOD_S:
            self.read_memory()
        return Reading(
            steps=self._steps,
            progress_at=self._progress_at,
            running=self._scheduler.running,
            waiting=self._scheduler.waiting,
            busy_s=self._busy_s,
            computed_tokens=self.computed_tokens,
            step_tokens=tokens_under_way,
            memory=self._memory,
            prefix_cache=self.counts.prefix_cache(self._tiers),
            drafts=self.counts.drafts(),
            preemptions=self.preemptions,
            decoding=self.counts.decoding,
            generated_tokens=self.counts.generated_tokens,
            finished=self.counts.finished,
        )

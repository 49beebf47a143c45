"""Records that wait to be written, within bounds."""

from __future__ import annotations

from typing import TypeVar

from .records import Record, SampleRecord

MAX_SAMPLES = 10_000
MAX_OTHERS = 5_000
SAMPLES_TOGETHER = 5
"""A batch costs about the same whatever is in it, so fewer samples than this wait for others or for more of them."""

R = TypeVar("R", bound=Record)


class Queue:
    """Records that wait, by kind and key, oldest first. When there are too many, samples and others each lose their
    own oldest: no flood of the former may cost the latter."""

    def __init__(self) -> None:
        self._samples: dict[tuple[object, ...], Record] = {}
        self._others: dict[tuple[object, ...], Record] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._samples) + len(self._others)

    def put(self, record: Record) -> None:
        is_sample = isinstance(record, SampleRecord)
        queue, bound = (self._samples, MAX_SAMPLES) if is_sample else (self._others, MAX_OTHERS)
        queue[type(record), *record.key] = record
        if len(queue) > bound:
            del queue[next(iter(queue))]
            self.dropped += 1

    def due(self, at_the_end: bool) -> list[Record]:
        """All that wait, unless it is too little to be worth a batch."""
        if not self._others and len(self._samples) < SAMPLES_TOGETHER and not at_the_end:
            return []
        return [*self._others.values(), *self._samples.values()]

    def written(self, records: list[Record]) -> None:
        """Let go of these, unless a newer one has come with the same key."""
        for record in records:
            key = (type(record), *record.key)
            for queue in (self._samples, self._others):
                if queue.get(key) is record:
                    del queue[key]

    def of_kind(self, kind: type[R]) -> list[R]:
        return [record for record in self._others.values() if isinstance(record, kind)]

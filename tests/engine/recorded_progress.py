"""A progress that remembers what it was told."""

from __future__ import annotations

import threading


class RecordedProgress:
    """Steps with the bytes of each, and whether all are over."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.descriptions: list[str] = []
        self.totals: list[int | None] = []
        self.seen: list[int] = []
        self.running = False

    def start(self, description: str, total_bytes: int | None) -> None:
        assert not self.running, "a step began inside another"
        self.running = True
        self.descriptions.append(description)
        self.totals.append(total_bytes)
        self.seen.append(0)
        self.started.set()

    def advance(self, byte_count: int) -> None:
        assert self.running, "an advance of no step"
        self.seen[-1] += byte_count

    def done(self) -> None:
        self.running = False

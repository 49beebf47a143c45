"""Kept traces on their way to an OTLP collector: a bounded queue and a thread, so that no collector slows a request.

What does not fit the queue, and what the collector does not take within the timeout, is dropped and counted. The
OpenTelemetry packages are imported on the thread: they take a second, and only this needs them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from .trace import Trace

MAX_QUEUED = 512
"""Traces; of some ten spans and a few kilobytes each."""
BATCH_SPANS = 128
"""Encoding more at once would hold the interpreter for longer than a token takes."""
CLOSE_DEADLINE_S = 2.0

log = structlog.get_logger(__name__)


class Sender(Protocol):
    """Speaks to a collector; used by the thread alone."""

    def send(self, traces: Sequence[Trace]) -> bool:
        """Whether the collector took them. Blocks for seconds at most."""


class Export:
    """The queue and its thread; a `Sink`. `connect` makes the sender, on the thread."""

    def __init__(self, connect: Callable[[], Sender]) -> None:
        self._connect = connect
        self._queue: queue.Queue[Trace | None] = queue.Queue(MAX_QUEUED)
        self._lock = threading.Lock()
        self._dropped = 0
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="otlp-export", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Spans, since the start."""
        return self._dropped

    def offer(self, trace: Trace) -> None:
        """Send it when there is time; drop it when too much waits."""
        try:
            self._queue.put_nowait(trace)
        except queue.Full:
            self._drop([trace])

    def close(self) -> None:
        """Send what is queued, for a moment; the thread ends with the process in any case."""
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(CLOSE_DEADLINE_S)

    def _run(self) -> None:
        # At once, while there is nothing to send: the imports would slow the requests that come meanwhile.
        sender = self._connected()
        while batch := self._next():
            why = "the collector did not take them"
            try:
                sender = sender or self._connect()
                taken = sender.send(batch)
            except Exception as error:
                # Whatever a library makes of a setting or of a collector's answer, the next batch is tried.
                taken, why = False, f"{type(error).__name__}: {error}"
            if not taken:
                self._drop(batch)
            self._tell(failing=not taken, why=why)

    def _connected(self) -> Sender | None:
        try:
            return self._connect()
        except Exception as error:
            self._tell(failing=True, why=f"{type(error).__name__}: {error}")
            return None

    def _next(self) -> list[Trace]:
        """What waits, up to a batch; nothing once it is closed."""
        batch: list[Trace] = []
        trace = self._queue.get()
        while trace is not None:
            batch.append(trace)
            if sum(len(each.spans) for each in batch) >= BATCH_SPANS or self._queue.empty():
                return batch
            trace = self._queue.get()
        if batch:
            self._queue.put(None)
        return batch

    def _drop(self, traces: Sequence[Trace]) -> None:
        # By both threads.
        with self._lock:
            self._dropped += sum(len(trace.spans) for trace in traces)

    def _tell(self, failing: bool, why: str) -> None:
        """Once when it begins and once when it ends, not for every batch."""
        if failing and not self._failing:
            log.warning("export_failing", why=why, dropped_spans=self._dropped)
        elif self._failing and not failing:
            log.info("export_recovered", dropped_spans=self._dropped)
        self._failing = failing

"""Every request's trace from its begin to its end: the last ones stay here, and what is kept goes to the collector.

So traces are of use without any collector: `GET /internal/traces` lists the last 200 that asked the model for something
or failed, `/internal/traces/{id}` has one. A client that lists models every second pushes none of them out, nor does it
make every answer look slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from . import telemetry
from .keeping import Slowest, kept, sampled
from .trace import Event, Remote, Span, Trace

RING = 200
LAST = "last"
"""Stands for the id of the newest trace."""


class Sink(Protocol):
    """Where kept traces go. Must not block."""

    def offer(self, trace: Trace) -> None: ...


class Traces:
    """The single owner of traces; `sink` None keeps them here alone."""

    def __init__(self, sample_ratio: float, sink: Sink | None) -> None:
        self._sample_ratio = sample_ratio
        self._sink = sink
        self._slowest = Slowest()
        self._ring: deque[Trace] = deque(maxlen=RING)

    def begin(self, name: str, request_id: str, at: float, remote: Remote | None) -> Trace:
        """For a request that has just come."""
        trace = Trace(Span(name, at), request_id, sampled=False, remote=remote)
        trace.sampled = sampled(trace.trace_id, self._sample_ratio, remote)
        return trace

    def end(self, trace: Trace, at: float) -> None:
        """Nothing of it changes any more."""
        trace.root.end = at
        for span in trace.spans:
            if span.end is None:
                span.end = at
        asked_the_model = trace.operation is not None
        if asked_the_model or telemetry.ERROR_TYPE in trace.root.attributes:
            self._ring.append(trace)
        is_slow = asked_the_model and self._slowest.add(trace.duration_s)
        if self._sink is not None and kept(trace, is_slow):
            self._sink.offer(trace)

    def snapshot(self) -> list[dict[str, Any]]:
        """The traces in short, newest first."""
        return [_summary(trace) for trace in reversed(self._ring)]

    def recent(self, count: int) -> list[Trace]:
        """The last ones themselves, newest first."""
        return [self._ring[-number] for number in range(1, min(count, len(self._ring)) + 1)]

    def find(self, name: str) -> dict[str, Any] | None:
        """One trace by its id, its request's id, or `LAST`; None when it is not, or no longer, here."""
        if name == LAST:
            return _whole(self._ring[-1]) if self._ring else None
        found = (trace for trace in reversed(self._ring) if name in (trace.id, trace.request_id))
        return next(map(_whole, found), None)


def _summary(trace: Trace) -> dict[str, Any]:
    return {
        "trace_id": trace.id,
        "request_id": trace.request_id,
        "name": trace.root.name,
        "started_at": trace.wall_ns(trace.root.start) / 1e9,
        "duration_s": trace.duration_s,
        "status": trace.root.attributes.get(telemetry.HTTP_STATUS),
        "error": trace.root.attributes.get(telemetry.ERROR_TYPE),
        "sampled": trace.sampled,
        "resumed": trace.resumed,
    }


def _whole(trace: Trace) -> dict[str, Any]:
    return _summary(trace) | {"spans": [_span(trace, span) for span in trace.spans]}


def _span(trace: Trace, span: Span) -> dict[str, Any]:
    """Times are seconds since the trace's begin."""
    assert span.end is not None, "the trace has ended"
    parent = trace.parent_of(span)
    return {
        "id": f"{span.id:016x}",
        "parent": None if parent is None else f"{parent.id:016x}",
        "name": span.name,
        "start_s": span.start - trace.root.start,
        "end_s": span.end - trace.root.start,
        "error": span.error,
        "attributes": span.attributes,
        "events": [_event(trace, event) for event in span.events],
    }


def _event(trace: Trace, event: Event) -> Mapping[str, Any]:
    return {"name": event.name, "at_s": event.at - trace.root.start, "attributes": event.attributes}

"""One request's trace: spans with real start and end, in plain data, and the W3C header that joins it to others.

Nothing of OpenTelemetry here: `export` makes its spans of these once it is known that a trace is to be sent. Times are
on the monotonic clock, in seconds; one offset to the wall clock for a whole trace keeps its spans nested.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

Value = str | bool | int | float | list[str]
Attributes = dict[str, Value]

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class Event:
    """A moment within a span."""

    name: str
    at: float
    attributes: Attributes = field(default_factory=dict)


@dataclass(slots=True)
class Span:
    """A stretch of time. `parent` None is the operation's, or the root's when there is no operation."""

    name: str
    start: float
    end: float | None = None
    parent: Span | None = None
    attributes: Attributes = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    error: str | None = None
    """Why it failed; not every `error.type` is a failure of ours."""
    id: int = field(default_factory=lambda: random.getrandbits(64) or 1)


@dataclass(frozen=True, slots=True)
class Remote:
    """The caller's span, from its `traceparent`, and whether the caller keeps its trace."""

    trace_id: int
    span_id: int
    sampled: bool


class Trace:
    """A request's spans while they are made; complete once `root.end` is set."""

    def __init__(self, root: Span, request_id: str, sampled: bool, remote: Remote | None = None) -> None:
        self.root = root
        self.request_id = request_id
        self.sampled = sampled
        self.remote = remote
        self.trace_id = random.getrandbits(128) or 1 if remote is None else remote.trace_id
        self.operation: Span | None = None
        self.resumed = False
        self.spans: list[Span] = [root]
        self._epoch_s = time.time() - time.monotonic()

    @property
    def id(self) -> str:
        """Hexadecimal, as in `traceparent`."""
        return f"{self.trace_id:032x}"

    @property
    def traceparent(self) -> str:
        """For whoever comes after this service, and for the caller to know the id."""
        return f"00-{self.id}-{self.root.id:016x}-{_SAMPLED if self.sampled else 0:02x}"

    @property
    def exemplar(self) -> dict[str, str] | None:
        """What a latency of this request is marked with, if its trace will be there to be looked at."""
        return {"trace_id": self.id} if self.sampled else None

    @property
    def names(self) -> dict[str, str]:
        """What its log lines are marked with."""
        return {"request_id": self.request_id, "trace_id": self.id}

    @property
    def duration_s(self) -> float:
        assert self.root.end is not None, "it has ended"
        return self.root.end - self.root.start

    def add(self, span: Span) -> Span:
        self.spans.append(span)
        return span

    def parent_of(self, span: Span) -> Span | None:
        """None for the root."""
        if span is self.root:
            return None
        if span.parent is not None:
            return span.parent
        return self.root if self.operation is None or span is self.operation else self.operation

    def wall_ns(self, at: float) -> int:
        """Nanoseconds since 1970."""
        return int((at + self._epoch_s) * 1e9)


def remote_of(traceparent: str | None) -> Remote | None:
    """The caller's span, None when the header is absent or malformed (W3C Trace Context, level 1)."""
    found = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent is not None else None
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups()[:3])
    return Remote(trace_id, span_id, bool(flags & _SAMPLED)) if trace_id and span_id else None


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


def current() -> Trace | None:
    """The trace of the request that this task answers, if it is traced."""
    return _current.get()


@contextlib.contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """`trace` is the current one while this is open."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def timed(name: str) -> Iterator[None]:
    """What happens while this is open is a span of the current trace."""
    trace = current()
    if trace is None:
        yield
        return
    span = trace.add(Span(name, time.monotonic()))
    try:
        yield
    finally:
        span.end = time.monotonic()

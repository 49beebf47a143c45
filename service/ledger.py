"""The ledger: every request in flight and every token it has emitted. The single writer of their state.

When the engine goes, its requests are suspended; when another is ready, they are handed to it with what they have
emitted, oldest first, and go on from there. A token is a function of seed and position, so nothing is altered.
Each request ends exactly once: `finished`, `failed`, or dropped because its owner no longer wants it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import structlog

from ..engine.client import EngineClient
from ..engine.protocol import (
    Finished,
    FinishReason,
    Heartbeat,
    Limits,
    Prefill,
    Ready,
    RejectCode,
    Rejected,
    RequestEvent,
    Timings,
    Tokens,
)
from .entry import Entry, Order, Receiver, State
from .errors import (
    ContextLengthExceeded,
    EngineUnavailable,
    InternalError,
    InvalidRequest,
    QueueFull,
    ServiceError,
    SlowReader,
)

log = structlog.get_logger(__name__)


class Resume(StrEnum):
    """What came of a request whose engine died."""

    RESUMED = "resumed"
    EXPIRED = "expired"
    ABANDONED = "abandoned"


class Observer(Protocol):
    """Who is told what can be measured."""

    def first_tokens(self, count: int, since_arrival_s: float) -> None: ...

    def more_tokens(self, count: int, since_last_s: float) -> None: ...

    def timed(self, timings: Timings, cached_tokens: int) -> None: ...

    def ended(self, duration_s: float, per_token_s: float | None) -> None: ...

    def cancelled(self) -> None: ...

    def resumed(self, outcome: Resume, gap_s: float) -> None: ...


@dataclass(frozen=True)
class Snapshot:
    """The ledger for people, metrics and admission. `limits` are those of the last engine that was ready;
    `engine_down_s` is how long there has been none since, None while there is one or before the first."""

    queued: int
    running: int
    suspended: int
    limits: Limits | None
    engine_down_s: float | None
    heartbeat: Heartbeat | None
    heartbeat_at: float | None


class Ledger:
    """Hears the engine (`EngineListener`), serves the requests. Everything happens on the event loop."""

    def __init__(
        self, observer: Observer, resume_deadline_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._observer = observer
        self._resume_deadline_s = resume_deadline_s
        self._clock = clock
        self._client: EngineClient | None = None
        self._entries: dict[str, Entry] = {}
        self._limits: Limits | None = None
        self._lost_at: float | None = None
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_at: float | None = None

    def connect(self, client: EngineClient) -> None:
        """The engine whose listener this ledger is; once, before anything else."""
        self._client = client

    def add(self, order: Order, receiver: Receiver) -> None:
        """Take a request: to the engine, or suspended as long as there is none."""
        entry = Entry(order, receiver, State.QUEUED)
        self._entries[order.id] = entry
        if self._engine.ready is None:
            self._suspend(entry)
        else:
            self._engine.submit(entry.submit())

    def stop(self, request_id: str) -> None:
        """Its owner has all it wants, for instance a stop string."""
        entry = self._entries.get(request_id)
        if entry is not None:
            self._end(entry)
            self._engine.cancel(request_id)

    def cancel(self, request_id: str) -> None:
        """Its client is gone; nothing happens to a request that has ended."""
        if request_id in self._entries:
            self._observer.cancelled()
            self.stop(request_id)

    def fail_all(self, error: ServiceError) -> None:
        """End everything that is in flight."""
        for entry in list(self._entries.values()):
            self._fail(entry, error)

    def expire(self) -> None:
        """Fail what has waited for an engine for too long; call it now and then."""
        now = self._clock()
        for entry in list(self._entries.values()):
            if entry.suspended_at is not None and now - entry.suspended_at >= self._resume_deadline_s:
                waited = f"no engine came back within {self._resume_deadline_s:g} s"
                self._fail(entry, EngineUnavailable(f"{waited}; send the request again"), Resume.EXPIRED)

    def engine_ready(self, ready: Ready) -> None:
        self._limits = ready.limits
        self._lost_at = None
        for entry in list(self._entries.values()):
            self._resume(entry)

    def engine_draining(self) -> None:
        """What it does not finish is resumed when it is lost; what comes meanwhile it rejects as `STOPPING`."""

    def engine_lost(self, reason: str) -> None:
        now = self._clock()
        self._lost_at = now
        self._heartbeat = self._heartbeat_at = None
        if self._entries:
            log.warning("requests_suspended", reason=reason, in_flight=len(self._entries))
        for entry in self._entries.values():
            if entry.state is not State.SUSPENDED:
                entry.lost_at = entry.lost_at or now
                self._suspend(entry)

    def engine_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._heartbeat_at = self._clock()

    def engine_event(self, event: RequestEvent) -> None:
        entry = self._entries.get(event.id)
        if entry is None:
            return  # It ended here before the engine knew.
        match event:
            case Prefill():
                self._prefilled(entry, event)
            case Tokens():
                self._take(entry, event)
            case Finished():
                self._finished(entry, event)
            case Rejected():
                self._rejected(entry, event)

    def snapshot(self) -> Snapshot:
        states = Counter(entry.state for entry in self._entries.values())
        return Snapshot(
            queued=states[State.QUEUED],
            running=states[State.RUNNING],
            suspended=states[State.SUSPENDED],
            limits=self._limits,
            engine_down_s=None if self._lost_at is None else self._clock() - self._lost_at,
            heartbeat=self._heartbeat,
            heartbeat_at=self._heartbeat_at,
        )

    def check_integrity(self) -> None:
        """Raise `AssertionError` when something is true that never may be."""
        for request_id, entry in self._entries.items():
            assert entry.order.id == request_id
            assert len(entry.emitted) <= entry.order.max_tokens, "more tokens than asked for"
            assert (entry.suspended_at is not None) == (entry.state is State.SUSPENDED)
            assert entry.state is State.SUSPENDED or self._engine.ready is not None, "runs without an engine"
            assert (entry.first_token_at is None) == (not entry.emitted)

    @property
    def _engine(self) -> EngineClient:
        assert self._client is not None, "connect comes first"
        return self._client

    def _suspend(self, entry: Entry) -> None:
        entry.state = State.SUSPENDED
        entry.suspended_at = self._clock()

    def _resume(self, entry: Entry) -> None:
        entry.suspended_at = None
        if len(entry.emitted) >= entry.order.max_tokens:
            # Its last token came, and the word that it was the last did not.
            self._continued(entry)
            self._end(entry)
            entry.receiver.finished(FinishReason.LENGTH)
            return
        entry.state = State.QUEUED
        self._engine.submit(entry.submit())

    def _prefilled(self, entry: Entry, event: Prefill) -> None:
        if entry.state is State.QUEUED:
            entry.state = State.RUNNING
            # A resumed request finds its own earlier tokens in the cache; those are not what its client saved.
            if not entry.emitted:
                entry.cached_tokens = event.cached
            entry.receiver.started(entry.cached_tokens)

    def _take(self, entry: Entry, event: Tokens) -> None:
        known = len(entry.emitted) - event.position
        if known < 0:
            log.error("tokens_missing", request=event.id, position=event.position, expected=len(entry.emitted))
            self._fail(entry, InternalError())
            return
        fresh = event.ids[known:]
        if not fresh:
            return
        entry.state = State.RUNNING
        self._observe_tokens(entry, len(fresh))
        entry.emitted.extend(fresh)
        if not entry.receiver.tokens(fresh):
            self._observer.cancelled()
            self._fail(entry, SlowReader("the stream was not read for too long; read faster or ask for less"))

    def _observe_tokens(self, entry: Entry, count: int) -> None:
        now = self._clock()
        self._continued(entry)
        if entry.first_token_at is None:
            entry.first_token_at = now
            self._observer.first_tokens(count, now - entry.order.arrived_at)
        else:
            self._observer.more_tokens(count, now - entry.last_token_at)
        entry.last_token_at = now

    def _continued(self, entry: Entry) -> None:
        if entry.lost_at is not None:
            gap_s = self._clock() - entry.lost_at
            entry.lost_at = None
            self._observer.resumed(Resume.RESUMED, gap_s)

    def _finished(self, entry: Entry, event: Finished) -> None:
        if event.reason is FinishReason.CANCELLED:
            log.error("cancelled_by_nobody", request=event.id)
            self._fail(entry, InternalError())
            return
        self._continued(entry)
        self._observer.timed(event.timings, entry.cached_tokens)
        self._end(entry)
        entry.receiver.finished(event.reason)

    def _rejected(self, entry: Entry, event: Rejected) -> None:
        match event.code:
            case RejectCode.STOPPING:
                # Its successor will take it.
                self._suspend(entry)
            case RejectCode.QUEUE_FULL:
                self._fail(entry, QueueFull(event.message))
            case RejectCode.CONTEXT_LENGTH_EXCEEDED:
                self._fail(entry, ContextLengthExceeded(event.message, "messages"))
            case RejectCode.INVALID:
                self._fail(entry, InvalidRequest(event.message))

    def _fail(self, entry: Entry, error: ServiceError, outcome: Resume = Resume.ABANDONED) -> None:
        self._end(entry, outcome)
        self._engine.cancel(entry.order.id)
        entry.receiver.failed(error)

    def _end(self, entry: Entry, outcome: Resume = Resume.ABANDONED) -> None:
        """`outcome` is what came of a resume, if one was still under way."""
        now = self._clock()
        if entry.lost_at is not None:
            self._observer.resumed(outcome, now - entry.lost_at)
        del self._entries[entry.order.id]
        self._observer.ended(now - entry.order.arrived_at, entry.time_per_output_token())

"""The ledger: every request in flight and every token it has emitted. The single writer of their state.

The engine gets what it has places for, and little more (`turns`). When it goes, its requests are suspended; when
another is ready, they are handed to it with what they have emitted, oldest first, and go on from there. A token is a
function of seed and position, so nothing is altered. A request whose reader is slow is taken out of the engine, and
goes on in the same way when the reader has caught up. Who kills engines is found and stopped (`quarantine`). Each
request ends exactly once: `finished`, `failed`, or dropped because its owner no longer wants it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import structlog

from ..config import Server
from ..engine.client import EngineClient
from ..engine.protocol import (
    Finished,
    FinishReason,
    Heartbeat,
    Prefill,
    Ready,
    RejectCode,
    Rejected,
    RequestEvent,
    Tokens,
)
from .entry import Entry, Order, Prefix, Receiver, State
from .errors import (
    ContextLengthExceeded,
    GrammarFailed,
    InternalError,
    InvalidRequest,
    QueueFull,
    RequestQuarantined,
    ServiceError,
    SlowReader,
)
from .observer import Observer, Resume, Stopwatch
from .pace import Pace
from .patience import overdue
from .quarantine import Fingerprints
from .snapshot import Snapshot
from .turns import Turns

INTEGRITY_PERIOD_S = 60.0

log = structlog.get_logger(__name__)


class Ledger:
    """Hears the engine (`EngineListener`), serves the requests. Everything happens on the event loop."""

    def __init__(self, observer: Observer, server: Server, clock: Callable[[], float] = time.monotonic) -> None:
        self._observer = observer
        self._server = server
        self._clock = clock
        self._stopwatch = Stopwatch(observer, clock)
        self._pace = Pace(clock)
        self._turns = Turns()
        self._fingerprints = Fingerprints(server.quarantine_s, clock)
        self._client: EngineClient | None = None
        self._entries: dict[str, Entry] = {}
        self._epoch = 0
        self._draining = False
        self._full = False
        self._lost_at: float | None = None
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_at: float | None = None
        self._checked_at = clock()

    def connect(self, client: EngineClient) -> None:
        """The engine whose listener this ledger is; once, before anything else."""
        self._client = client

    def add(self, order: Order, receiver: Receiver) -> None:
        """Take a request: it goes to an engine in its turn. Raises `RequestQuarantined`."""
        left_s = self._fingerprints.refused_for(order)
        if left_s is not None:
            raise RequestQuarantined(
                f"this same request crashed the engine before and is refused for another {left_s:.0f} s; change it"
            )
        self._entries[order.id] = entry = Entry(order, receiver, waits_since=order.arrived_at)
        self._stopwatch.taken(entry)
        self._turns.queue.push(order.caller, order.id, len(order.prompt))
        self._dispatch()

    def stop(self, request_id: str) -> None:
        """Its owner has all it wants, for instance a stop string."""
        entry = self._entries.get(request_id)
        if entry is not None:
            self._stopwatch.stopped(entry)
            self._leave(entry)

    def cancel(self, request_id: str) -> None:
        """Its client is gone; nothing happens to a request that has ended."""
        entry = self._entries.get(request_id)
        if entry is not None:
            self._stopwatch.cancelled(entry)
            self._leave(entry)

    def caught_up(self, request_id: str) -> None:
        """Its reader has taken all that there was."""
        entry = self._entries.get(request_id)
        if entry is not None and entry.catch_up(self._clock()):
            self._dispatch()

    def give_way_to(self, key: str) -> bool:
        """Make a place for a client by failing the newest waiting request of one that holds more than its share."""
        chosen = self._turns.queue.giving_way_to(key)
        if chosen is None:
            return False
        message = "the queue is full and others have fewer requests in it; send this one again later, or fewer at once"
        self._fail(self._entries[chosen], QueueFull(message, retry_after_s=self._retry_after_s()))
        return True

    def fail_all(self, error: ServiceError) -> None:
        """End everything that is in flight."""
        for entry in list(self._entries.values()):
            self._fail(entry, error)

    def tick(self) -> None:
        """Fail what has waited for too long, and try again what the engine had no place for; several times a second."""
        now = self._clock()
        for entry in list(self._entries.values()):
            error = overdue(entry, now, self._server, self._engine.ready is not None, self._retry_after_s())
            if isinstance(error, SlowReader):
                self._stopwatch.cancelled(entry)
            if error is not None:
                self._fail(entry, error, Resume.EXPIRED)
        self._full = False
        self._dispatch()
        if not self._entries and now - self._checked_at >= INTEGRITY_PERIOD_S:
            # Between two bursts of work, where to end over a contradiction costs nobody an answer.
            self._checked_at = now
            self.check_integrity()

    def engine_ready(self, ready: Ready) -> None:
        # The same incarnation again has lost its connection, not its life.
        condemned = self._turns.quarantine.judged(crash=ready.epoch != self._epoch and not self._draining)
        self._epoch = ready.epoch
        self._turns.limits = ready.limits
        self._lost_at = None
        self._draining = self._full = False
        for request_id in condemned:
            self._condemn(self._entries[request_id])
        self._dispatch()

    def engine_draining(self) -> None:
        """What it does not finish is suspended when it is lost; what comes meanwhile waits for its successor."""
        self._draining = True

    def engine_lost(self, reason: str) -> None:
        self._lost_at = self._clock()
        self._heartbeat = self._heartbeat_at = None
        if self._entries:
            log.warning("requests_suspended", reason=reason, in_flight=len(self._entries), on_purpose=self._draining)
        self._turns.quarantine.lost()
        for entry in self._entries.values():
            if entry.in_engine:
                if entry.lost_at is None:
                    entry.lost_at = entry.waits_since = self._lost_at
                entry.trail.lost(self._lost_at)
                entry.suspend(self._clock())

    def engine_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._heartbeat_at = self._clock()
        self._observer.heartbeat(heartbeat)

    def engine_event(self, event: RequestEvent) -> None:
        entry = self._entries.get(event.id)
        if entry is None or not entry.in_engine:
            return  # It ended here before the engine knew, or was taken back.
        match event:
            case Prefill():
                self._prefilled(entry, event)
            case Tokens():
                self._take(entry, event)
            case Finished():
                self._finished(entry, event)
            case Rejected():
                self._rejected(entry, event)
        if event.id not in self._entries:
            self._full = False
            self._dispatch()

    def snapshot(self) -> Snapshot:
        states = Counter(entry.state for entry in self._entries.values())
        return Snapshot(
            waiting=states[State.WAITING],
            waiting_tokens=self._turns.queue.tokens,
            queued=states[State.QUEUED],
            running=states[State.RUNNING],
            suspended=states[State.SUSPENDED],
            paused=states[State.PAUSED],
            retry_after_s=self._retry_after_s(),
            limits=self._turns.limits,
            engine_down_s=None if self._lost_at is None else self._clock() - self._lost_at,
            heartbeat=self._heartbeat,
            heartbeat_at=self._heartbeat_at,
        )

    def check_integrity(self) -> None:
        """Raise `AssertionError` when something is true that never may be."""
        self._turns.quarantine.check_integrity(self._entries.keys())
        states = Counter(entry.state for entry in self._entries.values())
        assert len(self._turns.queue) == states[State.WAITING], "the queue and the entries disagree"
        assert states[State.QUEUED] + states[State.RUNNING] <= self._turns.places, "more than the engine has places"
        for request_id, entry in self._entries.items():
            assert entry.order.id == request_id
            assert not entry.in_engine or self._engine.ready is not None, "runs without an engine"
            entry.check_integrity()

    @property
    def _engine(self) -> EngineClient:
        assert self._client is not None, "connect comes first"
        return self._client

    def _dispatch(self) -> None:
        """Hand over as many as the engine has places for."""
        while not (self._draining or self._full or self._engine.ready is None):
            suspended = (name for name, entry in self._entries.items() if entry.state is State.SUSPENDED)
            in_engine = sum(entry.in_engine for entry in self._entries.values())
            request_id = self._turns.next(suspended, in_engine)
            if request_id is None:
                return
            self._hand_over(self._entries[request_id])

    def _hand_over(self, entry: Entry) -> None:
        if entry.complete:
            self._stopwatch.continued(entry)
            self._end(entry)
            entry.receiver.finished(FinishReason.LENGTH)
            return
        entry.state = State.QUEUED
        self._turns.quarantine.handed_over(entry.order.id)
        self._stopwatch.handed_over(entry, self._epoch)
        self._engine.submit(entry.submit())

    def _refused_for_now(self, entry: Entry) -> None:
        entry.suspend(self._clock())
        entry.trail.taken_back()
        self._turns.quarantine.taken_back(entry.order.id)

    def _condemn(self, entry: Entry) -> None:
        """End it, and whatever else that asks for the same."""
        self._fingerprints.add(entry.order)
        log.error(
            "request_quarantined",
            **entry.trail.names,
            request=entry.order.id,
            place=entry.place,
            prompt_tokens=len(entry.order.prompt),
        )
        message = (
            "the engine crashed each time it computed this request, so it was ended alone; change it, or see the log"
        )
        for each in list(self._entries.values()):
            if self._fingerprints.refused_for(each.order) is not None:
                self._fail(each, RequestQuarantined(message), Resume.QUARANTINED)

    def _begun(self, entry: Entry, place: int) -> None:
        """The engine has got to `place` in its sequence."""
        entry.state = State.RUNNING
        entry.waits_since = None
        if self._turns.quarantine.reached(entry.order.id, place):
            self._dispatch()

    def _prefilled(self, entry: Entry, event: Prefill) -> None:
        if entry.state is State.QUEUED:
            if entry.lost_at is not None:
                entry.receiver.resumed()
                log.info(
                    "request_resumed",
                    request=event.id,
                    epoch=self._epoch,
                    known_tokens=event.total,
                    cached_tokens=event.cached,
                    waited_s=round(self._clock() - entry.lost_at, 3),
                )
            # A resumed request finds its own earlier tokens in the cache; those are not what its client saved.
            if not entry.emitted:
                entry.prefix = Prefix(
                    event.cached, event.total, event.tier, event.miss, event.diverged_at, event.from_disk
                )
            entry.receiver.started(entry.prefix)
        self._stopwatch.prefilled(entry, event)
        self._begun(entry, event.done)

    def _take(self, entry: Entry, event: Tokens) -> None:
        known = len(entry.emitted) - event.position
        if known < 0:
            log.error(
                "tokens_missing",
                **entry.trail.names,
                request=event.id,
                position=event.position,
                expected=len(entry.emitted),
            )
            self._fail(entry, InternalError())
            return
        fresh = event.ids[known:]
        if not fresh:
            return
        self._stopwatch.tokens(entry, len(fresh))
        entry.emitted.extend(fresh)
        self._begun(entry, entry.place)
        room = entry.receiver.tokens(fresh, (event.logprobs or [])[known:])
        if not room and entry.fall_behind(self._clock()):
            # Its row is for others until its reader has caught up.
            self._engine.cancel(entry.order.id)

    def _finished(self, entry: Entry, event: Finished) -> None:
        if event.reason is FinishReason.CANCELLED and entry.withdrawn:
            entry.let_go(self._clock())
            self._turns.quarantine.taken_back(event.id)
            self._full = False
            self._dispatch()
            return
        if event.reason is FinishReason.CANCELLED:
            log.error("cancelled_by_nobody", **entry.trail.names, request=event.id)
            self._fail(entry, InternalError())
            return
        if event.reason is FinishReason.GRAMMAR_FAILED:
            self._fail(entry, GrammarFailed(f"{event.message}; ask for a simpler format"))
            return
        self._stopwatch.finished(entry, event)
        self._pace.ended()
        self._end(entry)
        entry.receiver.finished(event.reason)

    def _rejected(self, entry: Entry, event: Rejected) -> None:
        match event.code:
            case RejectCode.STOPPING:
                self._draining = True
                self._refused_for_now(entry)
            case RejectCode.QUEUE_FULL:
                self._full = True
                self._refused_for_now(entry)
            case RejectCode.CONTEXT_LENGTH_EXCEEDED:
                self._fail(entry, ContextLengthExceeded(event.message, "messages"))
            case RejectCode.INVALID:
                self._fail(entry, InvalidRequest(event.message))

    def _retry_after_s(self) -> int | None:
        return self._pace.retry_after_s(sum(entry.waits_since is not None for entry in self._entries.values()))

    def _fail(self, entry: Entry, error: ServiceError, outcome: Resume = Resume.ABANDONED) -> None:
        self._stopwatch.failed(entry, error)
        self._leave_engine(entry)
        self._end(entry, outcome)
        entry.receiver.failed(error)

    def _leave(self, entry: Entry) -> None:
        """Its owner wants no more."""
        self._leave_engine(entry)
        self._end(entry)
        self._dispatch()

    def _leave_engine(self, entry: Entry) -> None:
        if entry.in_engine:
            self._engine.cancel(entry.order.id)

    def _end(self, entry: Entry, outcome: Resume = Resume.ABANDONED) -> None:
        """`outcome` is what came of a resume, if one was still under way."""
        del self._entries[entry.order.id]
        self._turns.queue.discard(entry.order.id)
        self._turns.quarantine.ended(entry.order.id)
        self._stopwatch.ended(entry, outcome)

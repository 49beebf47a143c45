"""Receive, schedule, forward, send: the engine's one loop, on the one thread that touches the model.

Any exception that leaves `run` means that the model's state can no longer be trusted (a Metal error may surface on a
later call than the one that caused it), so the process ends and a new one takes over: nothing is mended here.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import intake
from .batch import Batch, RowSpec, Sampled
from .link import Command, Finish, Inbound, Link, OwnedEvent, Owner, OwnerGone, Stop
from .meter import Meter
from .pace import PrefillPace, StepLoad
from .protocol import (
    Cancel,
    Finished,
    FinishReason,
    Reclaim,
    RejectCode,
    Rejected,
    RequestEvent,
    Submit,
    Tighten,
)
from .request import Request
from .scheduler import Chunk, Row, Scheduler

INTEGRITY_PERIOD_S = 60.0
NO_PREFILLS_LEVEL = 3
"""From this level of `Reclaim` on, no prompt is begun."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A step under way: what it computes, for which requests, and since when."""

    pieces: list[tuple[Request, Chunk]]
    launched_at: float


class EngineLoop:
    """Owns the scheduler and the batch. `run` returns after `Stop`, or after `Finish` once there is no work."""

    def __init__(
        self, link: Link, scheduler: Scheduler, batch: Batch, pace: PrefillPace, clock: Callable[[], float]
    ) -> None:
        self._link = link
        self._scheduler = scheduler
        self._batch = batch
        self._pace = pace
        self._clock = clock
        self._meter = Meter(batch, scheduler, clock)
        self._requests: dict[str, Request] = {}
        self._outbox: list[OwnedEvent] = []
        self._under_way: deque[_Step] = deque()
        self._collected_at = clock()
        self._finishing = False
        self._begins_prompts = True
        self._checked_at = clock()

    def run(self) -> None:
        """Step for as long as there is work; sleep on the inbox when there is none."""
        self._link.ready(self._batch.model, self._batch.limits)
        while self._receive():
            # What is about to run is told before it runs: a first step that hangs must show its work as pending.
            self._flush()
            if not self._scheduler.idle:
                self._step()
                self._flush()
            if self._scheduler.idle:
                if self._finishing:
                    return
                self._check_integrity()

    def _check_integrity(self) -> None:
        """Between two bursts of work, not between all."""
        now = self._clock()
        if now - self._checked_at >= INTEGRITY_PERIOD_S:
            self._checked_at = now
            self._scheduler.check_integrity()
            self._batch.check_integrity()

    def _receive(self) -> bool:
        """Obey everything that arrived; False after `Stop`."""
        was_idle = self._scheduler.idle
        for inbound in self._link.receive(wait=was_idle):
            if isinstance(inbound, Stop):
                return False
            self._obey(inbound)
        if was_idle:
            self._meter.work_came()
        return True

    def _obey(self, inbound: Inbound) -> None:
        match inbound:
            case Command(owner=owner, word=Submit() as submit):
                self._take(owner, submit)
            case Command(word=Cancel(id=request_id)):
                self._cancel(request_id)
            case Command(owner=owner, word=Reclaim(level=level)):
                self._reclaim(owner, level)
            case Command(word=Tighten() as limits):
                self._scheduler.tighten(limits)
                self._batch.allow_drafts(limits.speculate)
            case OwnerGone(owner=owner):
                for request_id in [key for key, request in self._requests.items() if request.owner == owner]:
                    self._forget(request_id)
            case Finish():
                self._finishing = True

    def _take(self, owner: Owner, submit: Submit) -> None:
        refusal = self._refusal(submit)
        if refusal is not None:
            self._outbox.append(OwnedEvent(owner, refusal))
            return
        now = self._clock()
        self._requests[submit.id] = request = Request(owner, submit, now)
        budget = submit.max_tokens - len(submit.emitted)
        self._batch.expect(_row_spec(submit))
        self._scheduler.add(Row(submit.id, request.known, budget, arrived_at=now, priority=submit.priority))

    def _refusal(self, submit: Submit) -> Rejected | None:
        if self._finishing:
            return Rejected(submit.id, RejectCode.STOPPING, "this engine is about to end")
        if submit.id in self._requests:
            return Rejected(submit.id, RejectCode.INVALID, f"request {submit.id} is already here")
        refusal = intake.refusal(submit, self._batch)
        if refusal is not None:
            return refusal
        if not self._begins_prompts:
            return _handed_back(submit.id)
        if not self._scheduler.can_add():
            return Rejected(submit.id, RejectCode.QUEUE_FULL, f"{self._scheduler.waiting} requests wait already")
        return None

    def _reclaim(self, owner: Owner, level: int) -> None:
        """What is under way ends first, so that the readings before and after are true."""
        self._collect(leave=0)
        self._flush()
        self._begins_prompts = self._begins_prompts and level < NO_PREFILLS_LEVEL if level else True
        freed = self._batch.reclaim(level)
        self._meter.read_memory()
        self._link.reclaimed(owner, level, freed)

    def _step(self) -> None:
        began = self._clock()
        # Usually one step is left under way while the next is launched, so that the device never waits for us.
        self._collect(leave=0 if self._batch.needs_tokens else 1)
        # Tokens do not wait for the next graph to be built, and a launch that hangs leaves a true reading behind.
        self._flush()
        self._admit()
        chunks = self._plan()
        if chunks:
            pieces = [(self._requests[chunk.id], chunk) for chunk in chunks]
            self._under_way.append(_Step(pieces, launched_at=self._clock()))
            self._tell_what_is_under_way()
            self._batch.launch(chunks)
            self._scheduler.apply(chunks)
        else:
            self._collect(leave=0)
        self._meter.stepped(began)

    def _admit(self) -> None:
        if not self._begins_prompts:
            for waiting_id in self._scheduler.waiting_ids:
                self._emit(self._forget(waiting_id), _handed_back(waiting_id))
        while (row_id := self._scheduler.admit(self._batch.should_wait, self._batch.has_room_for)) is not None:
            request = self._requests[row_id]
            found = self._batch.add(row_id)
            self._scheduler.found(row_id, found.tokens)
            if not request.begun:
                self._meter.counts.looked_up(request.known, found)
            self._emit(request, request.admitted(found, self._clock()))

    def _plan(self) -> tuple[Chunk, ...]:
        """What the next step computes; rows give up their KV until there is room for it."""
        while (chunks := self._scheduler.plan()) and not self._batch.has_room_after(chunks):
            if self._under_way:
                # What it draws must be known before its row can wait, and may end rows.
                self._collect(leave=0)
                self._flush()
                continue
            victim = self._scheduler.victim()
            if victim is None:
                break
            self._scheduler.preempted(victim, self._batch.preempt(victim))
            self._meter.preemptions += 1
        return chunks

    def _collect(self, leave: int) -> None:
        """Wait for steps under way and hand out what they drew."""
        self._tell_what_is_under_way()
        drawn = self._batch.collect(leave)
        while len(self._under_way) > leave:
            step = self._under_way.popleft()
            self._learn_pace(step, drawn)
            for request, chunk in step.pieces:
                self._meter.computed_tokens += chunk.count
                self._report_prefill(request, chunk)
        for sampled in drawn:
            self._hand_out(sampled)
        if self._scheduler.idle and self._under_way:
            # What is under way was launched for rows that have ended since; let go of what it holds.
            self._batch.collect(leave=0)
            self._under_way.clear()

    def _learn_pace(self, step: _Step, drawn: Sequence[Sampled]) -> None:
        """A step began when it was launched or, if that was later, when the one before it was over."""
        now = self._clock()
        seconds, self._collected_at = now - max(step.launched_at, self._collected_at), now
        prompt_tokens = sum(chunk.count for _, chunk in step.pieces if not chunk.decodes)
        decoding = sum(chunk.decodes for _, chunk in step.pieces)
        attended = sum(chunk.attended for _, chunk in step.pieces)
        behind = sum(chunk.start for _, chunk in step.pieces if not chunk.decodes)
        self._pace.observe(seconds, StepLoad(decoding, prompt_tokens, attended, behind))
        if not prompt_tokens:
            ids = {chunk.id for _, chunk in step.pieces}
            tokens = sum(len(sampled.tokens) for sampled in drawn if sampled.id in ids)
            # One token each, which attends to its whole context.
            self._meter.counts.decoded(seconds, len(ids), tokens, context_tokens=attended)

    def _tell_what_is_under_way(self) -> None:
        """How long the next call may take depends on it, and that call may be the one that never returns."""
        self._link.reading = dataclasses.replace(self._link.reading, step_tokens=self._tokens_under_way)

    @property
    def _tokens_under_way(self) -> int:
        return sum(chunk.count for step in self._under_way for _, chunk in step.pieces)

    def _hand_out(self, sampled: Sampled) -> None:
        self._meter.counts.sampled(sampled)
        request = self._requests.get(sampled.id)
        if request is None:
            return
        self._scheduler.credit(sampled.id, len(sampled.tokens) - 1)
        tokens, reason = request.take(sampled)
        self._emit(request, tokens)
        if reason is not None:
            self._finish(sampled.id, reason, sampled.failure or "")

    def _report_prefill(self, request: Request, chunk: Chunk) -> None:
        if self._requests.get(chunk.id) is request and not chunk.decodes:
            self._emit(request, request.computed(chunk.start + chunk.count, self._clock()))

    def _cancel(self, request_id: str) -> None:
        if request_id in self._requests:
            self._finish(request_id, FinishReason.CANCELLED)

    def _finish(self, request_id: str, reason: FinishReason, message: str = "") -> None:
        request = self._forget(request_id)
        self._meter.counts.finished += 1
        self._emit(request, Finished(request_id, reason, request.timings(self._clock()), message))

    def _forget(self, request_id: str) -> Request:
        self._scheduler.remove(request_id)
        self._batch.remove(request_id)
        return self._requests.pop(request_id)

    def _emit(self, request: Request, event: RequestEvent | None) -> None:
        if event is not None:
            self._outbox.append(OwnedEvent(request.owner, event))

    def _flush(self) -> None:
        self._link.send(self._outbox)
        self._outbox = []
        # What others will find in the prefix cache is copied while the tokens are on their way.
        self._batch.settle()
        self._link.reading = self._meter.reading(self._tokens_under_way)


def _row_spec(submit: Submit) -> RowSpec:
    return RowSpec(submit.id, submit.prompt, submit.emitted, submit.sampling, submit.grammar, submit.use_prefix_cache)


def _handed_back(request_id: str) -> Rejected:
    return Rejected(request_id, RejectCode.QUEUE_FULL, "no prompt is begun while memory is given back")

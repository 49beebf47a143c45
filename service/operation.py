"""The span of what the model was asked to do, with everything that OpenTelemetry wants to know of it."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..engine.protocol import Sampling
from . import telemetry
from .errors import ServiceError
from .spans import seconds, spans_of
from .trace import Attributes, Span, Trace, current
from .trail import Trail

PROVIDER = "stoker"
CHAT = "chat"
TEXT_COMPLETION = "text_completion"
MAX_CONTENT_CHARS = 65_536
"""Of prompt and of answers; a trace must stay small enough to keep two hundred."""


@dataclass(frozen=True)
class Asked:
    """What was asked, as far as a trace says it."""

    name: str
    model: str
    sampling: Sampling
    max_tokens: int | None
    choices: int
    stops: Sequence[str]
    arrived_at: float


@dataclass
class Content:
    """What was said, for those who may read it: texts by role, and each answer as it grows."""

    prompt: Sequence[tuple[str, str]]
    answers: defaultdict[int, str] = field(default_factory=lambda: defaultdict(str))

    def attributes(self) -> Attributes:
        """In OpenTelemetry's form: JSON of roles and parts."""
        answers = [("assistant", self.answers[number]) for number in sorted(self.answers)]
        return {telemetry.INPUT_MESSAGES: _messages(self.prompt), telemetry.OUTPUT_MESSAGES: _messages(answers)}


def _messages(said: Sequence[tuple[str, str]]) -> str:
    room = MAX_CONTENT_CHARS // max(len(said), 1)
    parts = [{"role": role, "parts": [{"type": "text", "content": text[:room]}]} for role, text in said]
    return json.dumps(parts, ensure_ascii=False)


@dataclass
class Operation:
    """One request's, while it is answered; with no trace it goes unseen."""

    asked: Asked
    trace: Trace | None
    content: Content | None = None
    """Where that is wanted."""
    trails: list[Trail] = field(default_factory=list)
    used: Attributes = field(default_factory=dict)
    response_id: str | None = None
    error: str | None = None

    def trail(self) -> Trail:
        """For one more generation."""
        trail = Trail() if self.trace is None else Trail(self.trace.exemplar, self.trace.names)
        self.trails.append(trail)
        return trail

    def end(self) -> None:
        """All generations have ended."""
        trace = self.trace
        if trace is None:
            return
        own = Span(f"{self.asked.name} {self.asked.model}", self.asked.arrived_at, time.monotonic())
        own.attributes = _asked(self.asked) | self._answered()
        if any(span.name == telemetry.STREAM for span in trace.spans):
            own.attributes[telemetry.REQUEST_STREAM] = True
        trace.operation = trace.add(own)
        several = len(self.trails) > 1
        for number, trail in enumerate(self.trails):
            for span in spans_of(trail, number if several else None):
                trace.add(span)
                trace.resumed = trace.resumed or span.name == telemetry.RESUME
        own.attributes |= self._latencies(trace.spans, own)

    def _answered(self) -> Attributes:
        attributes: Attributes = {telemetry.RESPONSE_MODEL: self.asked.model}
        if self.response_id is not None:
            attributes[telemetry.RESPONSE_ID] = self.response_id
        finishes = [trail.finish.value for trail in self.trails if trail.finish is not None]
        if finishes:
            attributes[telemetry.RESPONSE_FINISH_REASONS] = finishes
        error = next((trail.error for trail in self.trails if trail.error is not None), self.error)
        if error is not None:
            attributes[telemetry.ERROR_TYPE] = error
        return attributes | self.used | ({} if self.content is None else self.content.attributes())

    def _latencies(self, spans: Sequence[Span], own: Span) -> Attributes:
        """Of the first generation, in seconds."""
        assert own.end is not None
        of_first = [span for span in spans if span.attributes.get(telemetry.CHOICE, 0) == 0]
        attributes: Attributes = {
            telemetry.LATENCY_QUEUE: seconds(of_first, telemetry.QUEUE),
            telemetry.LATENCY_PREFILL: seconds(of_first, telemetry.PREFILL),
            telemetry.LATENCY_DECODE: seconds(of_first, telemetry.DECODE),
            telemetry.LATENCY_E2E: own.end - own.start,
        }
        for attempt in (attempt for trail in self.trails[:1] for attempt in trail.attempts):
            if attempt.first_token_at is not None:
                attributes[telemetry.LATENCY_FIRST_TOKEN] = attempt.first_token_at - own.start
                break
        return attributes


@contextlib.contextmanager
def operation(asked: Asked, content: Content | None) -> Iterator[Operation]:
    """Part of the current trace, if there is one."""
    of_this = Operation(asked, current(), content)
    try:
        yield of_this
    except ServiceError as error:
        of_this.error = error.code
        raise
    finally:
        of_this.end()


def _asked(asked: Asked) -> Attributes:
    sampling = asked.sampling
    attributes: Attributes = {
        telemetry.OPERATION: asked.name,
        telemetry.PROVIDER: PROVIDER,
        telemetry.REQUEST_MODEL: asked.model,
        telemetry.REQUEST_TEMPERATURE: sampling.temperature,
        telemetry.REQUEST_TOP_P: sampling.top_p,
        telemetry.REQUEST_TOP_K: sampling.top_k,
        telemetry.REQUEST_FREQUENCY_PENALTY: sampling.frequency_penalty,
        telemetry.REQUEST_PRESENCE_PENALTY: sampling.presence_penalty,
        telemetry.REQUEST_SEED: sampling.seed,
        telemetry.REQUEST_CHOICES: asked.choices,
    }
    if asked.max_tokens is not None:
        attributes[telemetry.REQUEST_MAX_TOKENS] = asked.max_tokens
    if asked.stops:
        attributes[telemetry.REQUEST_STOP_SEQUENCES] = list(asked.stops)
    return attributes

"""From what happened to a generation to its spans: queue, prefill and decode of each attempt, and resumes. Pure.

Ends that never came (an engine's death, a client's leaving) are the attempt's or the generation's own end, so that
spans nest whatever happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import telemetry
from .trace import Attributes, Event, Span
from .trail import Attempt, Chunk, Trail


def spans_of(trail: Trail, choice: int | None = None) -> list[Span]:
    """Of a generation that has ended, parents before children; `choice` is its number where there are several."""
    if trail.began_at is None or trail.ended_at is None:
        return []
    spans = list(_attempts(trail, trail.began_at, trail.ended_at))
    if choice is not None:
        for span in spans:
            span.attributes[telemetry.CHOICE] = choice
    if spans and trail.error is not None:
        spans[-1].attributes[telemetry.ERROR_TYPE] = trail.error
    return spans


def seconds(spans: Sequence[Span], name: str) -> float:
    """Spent in all spans of that name."""
    return sum((span.end or span.start) - span.start for span in spans if span.name == name)


def _attempts(trail: Trail, began_at: float, ended_at: float) -> Iterator[Span]:
    waits_since, resume = began_at, None
    for attempt in trail.attempts:
        end = attempt.lost_at if attempt.lost_at is not None else ended_at
        if resume is not None:
            # It goes on until the next token, through engines that die before one.
            resume.end = attempt.first_token_at or ended_at
            resume.attributes |= {
                telemetry.EPOCH: attempt.epoch,
                telemetry.EMITTED: attempt.emitted,
                telemetry.GAP: resume.end - resume.start,
            }
        yield from _attempt(trail, attempt, waits_since, end, resume)
        if attempt.lost_at is not None:
            waits_since = attempt.lost_at
            if resume is None or attempt.first_token_at is not None:
                resume = Span(telemetry.RESUME, waits_since, ended_at, attributes={telemetry.EMITTED: trail.emitted})
                yield resume
    if not trail.attempts or trail.attempts[-1].lost_at is not None:
        # It waited for an engine to the end.
        yield Span(telemetry.QUEUE, waits_since, ended_at, parent=resume)


def _attempt(trail: Trail, attempt: Attempt, waits_since: float, end: float, resume: Span | None) -> Iterator[Span]:
    begun = _begun_at(attempt)
    yield Span(
        telemetry.QUEUE,
        waits_since,
        end if begun is None else begun,
        parent=resume,
        attributes={telemetry.EPOCH: attempt.epoch},
    )
    if begun is None:
        return
    first = attempt.first_token_at
    # Pieces after the first token: the engine took its KV away for others, and computes it again.
    until = end if first is None else first
    yield Span(
        telemetry.PREFILL,
        begun,
        until,
        parent=resume,
        attributes=_prefill_attributes(attempt),
        events=[_event(chunk, begun) for chunk in attempt.chunks if chunk.at <= until],
    )
    if first is not None:
        yield Span(
            telemetry.DECODE,
            first,
            end,
            attributes=_decode_attributes(attempt),
            events=[
                Event(telemetry.FIRST_TOKEN, first),
                *(_event(chunk, first) for chunk in attempt.chunks if chunk.at > first),
            ],
        )


def _event(chunk: Chunk, not_before: float) -> Event:
    return Event(telemetry.CHUNK, max(chunk.at, not_before), {telemetry.PREFILL_DONE: chunk.done})


def _begun_at(attempt: Attempt) -> float | None:
    """The engine's word for how long it kept it waiting, within what was seen from here."""
    seen = attempt.chunks[0].at if attempt.chunks else attempt.first_token_at
    if seen is None or attempt.timings is None:
        return seen
    return min(attempt.handed_over_at + attempt.timings.queue_s, seen)


def _prefill_attributes(attempt: Attempt) -> Attributes:
    attributes: Attributes = {
        telemetry.EPOCH: attempt.epoch,
        telemetry.PREFILL_TOTAL: attempt.total,
        telemetry.PREFILL_CACHED: attempt.cached,
        telemetry.PREFILL_FROM_DISK: attempt.from_disk,
    }
    if attempt.tier is not None:
        attributes[telemetry.CACHE_TIER] = attempt.tier.value
    if attempt.miss is not None:
        attributes[telemetry.MISS_REASON] = attempt.miss.value
    if attempt.timings is not None:
        attributes[telemetry.PREFILL_CHUNKS] = attempt.timings.prefill_chunks
    return attributes


def _decode_attributes(attempt: Attempt) -> Attributes:
    attributes: Attributes = {telemetry.EPOCH: attempt.epoch}
    if attempt.timings is not None:
        attributes[telemetry.DRAFTED] = attempt.timings.drafted
        attributes[telemetry.ACCEPTED] = attempt.timings.accepted
    return attributes

"""A run over time: its intervals put together into as many points as a chart can show. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..histogram import Histogram, merged
from ..intervals import Interval, Spell
from ..summary import AWAY

MOST_POINTS = 240


class Point(msgspec.Struct, frozen=True):
    """Some consecutive intervals. Seconds, tokens a second, bytes; None where there was nothing."""

    at: float
    ttft_p50: float | None
    ttft_p95: float | None
    tpot_p50: float | None
    tpot_p95: float | None
    tokens_per_s: float
    requests_per_minute: float
    failed: int
    concurrency: float | None
    hit_share: float | None
    memory: dict[str, float]


def points(intervals: Sequence[Interval]) -> list[Point]:
    """At most `MOST_POINTS`, oldest first. Requests that met chaos are in: a chart shows what happened."""
    size = max(1, -(-len(intervals) // MOST_POINTS))
    return [_point(intervals[begin : begin + size]) for begin in range(0, len(intervals), size)]


def _point(part: Sequence[Interval]) -> Point:
    seconds = sum(each.seconds for each in part) or 1.0
    ttft = _all([each.ttft for each in part], [each.disturbed_ttft for each in part])
    tpot = _all([each.tpot for each in part], [each.disturbed_tpot for each in part])
    prompt = sum(each.prompt_tokens for each in part)
    requests = sum(each.requests for each in part)
    return Point(
        at=(part[0].since + part[-1].until) / 2,
        ttft_p50=ttft.quantile(0.5),
        ttft_p95=ttft.quantile(0.95),
        tpot_p50=tpot.quantile(0.5),
        tpot_p95=tpot.quantile(0.95),
        tokens_per_s=sum(each.completion_tokens for each in part) / seconds,
        requests_per_minute=60 * requests / seconds,
        failed=sum(sum(each.failures.values()) for each in part),
        concurrency=_mean([each.concurrency for each in part if each.concurrency is not None]),
        hit_share=sum(each.cached_tokens for each in part) / prompt if prompt else None,
        memory=_memory(part),
    )


def _memory(part: Sequence[Interval]) -> dict[str, float]:
    kinds = sorted({kind for each in part for kind in each.memory})
    return {kind: _mean([each.memory[kind] for each in part if kind in each.memory]) or 0.0 for kind in kinds}


def _all(calm: list[Histogram], disturbed: list[Histogram]) -> Histogram:
    return merged([*calm, *disturbed])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def states(began_at: float, intervals: Sequence[Interval]) -> list[Spell]:
    """Every second since the run began, neighbours of one state as one; what no interval covers, the run was away."""
    found: list[Spell] = []
    reached = began_at

    def add(since: float, until: float, state: str) -> None:
        if until <= since:
            return
        if found and found[-1].state == state and found[-1].until == since:
            found[-1] = Spell(found[-1].since, until, state)
        else:
            found.append(Spell(since, until, state))

    for spell in (spell for each in intervals for spell in each.spells):
        add(reached, spell.since, AWAY)
        add(max(reached, spell.since), spell.until, spell.state)
        reached = max(reached, spell.until)
    return found


def absences(began_at: float, intervals: Sequence[Interval]) -> list[Spell]:
    """When the run was away."""
    return [spell for spell in states(began_at, intervals) if spell.state == AWAY]

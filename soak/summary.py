"""A run in numbers: everything that a verdict, a report or a comparison says, made of its intervals alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import median

import msgspec

from ..watchdog.journal.uptime import DOWN, OFF, UP
from .chaos import EXPECTS, EXPLAINED_S
from .drift import Drift, drift
from .growth import Growth, growth
from .histogram import Histogram, merged
from .intervals import ENGINE_MLX, ENGINE_OTHER, SERVICE, Act, IncidentSeen, Interval, Spell
from .outcome import ERRORS, Failure, Finding

AWAY = "away"
HOUR_S = 3600.0
MOST_ERRORS = 10
LOST = (Finding.EMPTY, Finding.WRONG_COUNT)
"""Findings that say that tokens were lost or repeated; the others are about how a text looks."""


class Quantiles(msgspec.Struct, frozen=True):
    """Of a latency, in seconds."""

    p50: float
    p95: float
    p99: float


class Explained(msgspec.Struct, frozen=True):
    """An incident, and the act of chaos that explains it, if one does."""

    incident: IncidentSeen
    by: str | None


class Summary(msgspec.Struct, frozen=True):
    """A run so far. Shares are from 0 to 1 and None where there is nothing to divide by."""

    began_at: float
    until: float
    intervals: int
    seconds: dict[str, float]
    """By state: up, down, off and, between two of its processes, away. Their sum is `until` - `began_at`."""
    excused_down_s: float
    """Down because of an act of chaos."""
    requests: int
    failures: dict[str, int]
    errors: tuple[str, ...]
    findings: dict[str, int]
    resumed: int
    compared: int
    altered: int
    shifted: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    ttft: Quantiles | None
    tpot: Quantiles | None
    disturbed_ttft: Quantiles | None
    ttft_drift: Drift
    tpot_drift: Drift
    growths: tuple[Growth, ...]
    footprint_bytes: float | None
    """Most of the engine and the service together."""
    fragmentation: float | None
    deaths: int
    unordered_deaths: int
    incidents: tuple[Explained, ...]
    acts: tuple[Act, ...]
    lag_s: float
    """By how much the load client was itself late, in the usual interval."""

    @property
    def load_s(self) -> float:
        """Time in which the run was there to ask."""
        return sum(self.seconds.values()) - self.seconds[AWAY]

    @property
    def uptime(self) -> float | None:
        """Of the time in which the tree should have been up, chaos left out."""
        up_s, down_s = self.seconds[UP], self.seconds[DOWN] - self.excused_down_s
        return up_s / (up_s + down_s) if up_s + down_s > 0 else None

    @property
    def failed(self) -> int:
        return sum(self.failures.get(each.value, 0) for each in ERRORS)

    @property
    def refused(self) -> int:
        return self.failures.get(Failure.REFUSED.value, 0)

    @property
    def error_share(self) -> float | None:
        asked = self.requests - self.refused
        return self.failed / asked if asked else None

    @property
    def cache_hit_share(self) -> float | None:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def tokens_per_s(self) -> float | None:
        return self.completion_tokens / self.load_s if self.load_s else None

    @property
    def lost(self) -> int:
        """Answers in which tokens were lost or repeated."""
        return self.shifted + sum(self.findings.get(each.value, 0) for each in LOST)

    @property
    def crashes_per_hour(self) -> float | None:
        return self.unordered_deaths * HOUR_S / self.load_s if self.load_s else None

    @property
    def unexplained(self) -> list[IncidentSeen]:
        return [each.incident for each in self.incidents if each.by is None]


def summarized(began_at: float, until: float, intervals: Sequence[Interval]) -> Summary:
    """Of a run that began then and was looked at last `until`."""
    acts = tuple(sorted(chain.from_iterable(each.acts for each in intervals), key=lambda act: act.at))
    spells = [spell for each in intervals for spell in each.spells]
    memory = [each.memory for each in intervals]
    deaths = sum(each.deaths for each in intervals)
    return Summary(
        began_at=began_at,
        until=until,
        intervals=len(intervals),
        seconds=seconds_by_state(began_at, until, spells),
        excused_down_s=sum(excused_s(spell, acts) for spell in spells if spell.state == DOWN),
        requests=_sum(each.requests for each in intervals),
        failures=_added(each.failures for each in intervals),
        errors=tuple(chain.from_iterable(each.errors for each in intervals))[:MOST_ERRORS],
        findings=_added(each.findings for each in intervals),
        resumed=_sum(each.resumed for each in intervals),
        compared=_sum(each.compared for each in intervals),
        altered=_sum(each.altered for each in intervals),
        shifted=_sum(each.shifted for each in intervals),
        prompt_tokens=_sum(each.prompt_tokens for each in intervals),
        cached_tokens=_sum(each.cached_tokens for each in intervals),
        completion_tokens=_sum(each.completion_tokens for each in intervals),
        ttft=_quantiles(each.ttft for each in intervals),
        tpot=_quantiles(each.tpot for each in intervals),
        disturbed_ttft=_quantiles(each.disturbed_ttft for each in intervals),
        ttft_drift=drift([each.ttft for each in intervals]),
        tpot_drift=drift([each.tpot for each in intervals]),
        growths=_growths(intervals),
        footprint_bytes=max((_footprint(each) for each in memory), default=0.0) or None,
        fragmentation=_fragmentation(intervals),
        deaths=deaths,
        unordered_deaths=max(0, deaths - sum(act.kind in {"kill", "stop"} for act in acts)),
        incidents=explained(intervals, acts),
        acts=acts,
        lag_s=median(each.lag_s for each in intervals) if intervals else 0.0,
    )


def seconds_by_state(began_at: float, until: float, spells: Iterable[Spell]) -> dict[str, float]:
    """Every second of the run exactly once: what no spell covers, the run was away."""
    spent = {UP: 0.0, DOWN: 0.0, OFF: 0.0}
    for spell in spells:
        spent[spell.state] += spell.seconds
    return {**spent, AWAY: max(0.0, until - began_at - sum(spent.values()))}


def excused_s(spell: Spell, acts: Iterable[Act]) -> float:
    """How much of a time down lies between an act of chaos and its recovery, each moment once."""
    windows = [(act.at, act.recovered_at) for act in acts if act.recovered_at is not None]
    reached, excused = spell.since, 0.0
    for begins, ends in windows:
        since, until = max(begins, reached), min(ends, spell.until)
        if until > since:
            excused += until - since
            reached = until
    return excused


def explained(intervals: Iterable[Interval], acts: Sequence[Act]) -> tuple[Explained, ...]:
    """Every incident once, as it stood last."""
    last = {each.id: each for interval in intervals for each in interval.incidents}
    return tuple(Explained(each, _explanation(each, acts)) for each in last.values())


def _explanation(incident: IncidentSeen, acts: Sequence[Act]) -> str | None:
    # A moment is allowed for: the act is written down by another process than the incident.
    found = [
        act.kind
        for act in acts
        if incident.kind in EXPECTS[act.kind] and act.at - 2.0 <= incident.opened_at <= _explains_until(act)
    ]
    # They are in the order of time, and each explains what comes for a while: the last one is nearest.
    return found[-1] if found else None


def _explains_until(act: Act) -> float:
    # A leak that nothing has healed yet explains what comes of it whenever it comes.
    ends = act.recovered_at or act.over_at
    return float("inf") if ends is None else ends + EXPLAINED_S


def _growths(intervals: Sequence[Interval]) -> tuple[Growth, ...]:
    signals = (ENGINE_MLX, ENGINE_OTHER, SERVICE)
    lows = {signal: [each.lows[signal] for each in intervals if signal in each.lows] for signal in signals}
    found = (growth(signal, lows[signal]) for signal in signals)
    return tuple(each for each in found if each is not None)


def _fragmentation(intervals: Sequence[Interval]) -> float | None:
    """What it usually is in the last quarter; 0 when the pool was always small, None when nothing is known."""
    known = [each for each in intervals if each.memory]
    last = known[len(known) - len(known) // 4 :]
    return median(each.fragmentation or 0.0 for each in last) if last else None


def _footprint(memory: dict[str, float]) -> float:
    return memory.get("engine footprint", 0.0) + memory.get("service footprint", 0.0)


def _quantiles(histograms: Iterable[Histogram]) -> Quantiles | None:
    whole = merged(histograms)
    p50, p95, p99 = (whole.quantile(share) for share in (0.5, 0.95, 0.99))
    if p50 is None or p95 is None or p99 is None:
        return None
    return Quantiles(p50, p95, p99)


def _sum(values: Iterable[int]) -> int:
    return sum(values)


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    whole: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            whole[name] = whole.get(name, 0) + count
    return whole

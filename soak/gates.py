"""The verdict: every gate of a run's plan against what the run came to. Pure.

A gate fails only on evidence: where chance would explain as much, or too little has happened, it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..config import Gates
from ..watchdog.soak_news import GateOutcome
from .drift import Drift
from .summary import AWAY, Summary

LEAST_REQUESTS = 30
MOST_AWAY_SHARE = 0.5
MOST_LAG_S = 0.25
"""A load client that is later than this measures itself."""
MB = 1e6
HIT_SHARES = {"chat": 0.2, "agent": 0.5, "mixed": 0.2}
"""What the workloads' conversations, which go on where they were, find in a prefix cache at least."""


class GateResult(msgspec.Struct, frozen=True):
    """One gate. `value` and `limit` are in the unit that the sentence names; None is not known, or no limit."""

    gate: str
    outcome: GateOutcome
    sentence: str
    value: float | None = None
    limit: float | None = None


class Verdict(msgspec.Struct, frozen=True):
    """All gates, and what they come to together: one that fails decides, then one that cannot say."""

    outcome: GateOutcome
    gates: tuple[GateResult, ...]

    @property
    def reasons(self) -> list[str]:
        """Why it is no pass; what fails comes first."""
        of = {each: [gate.sentence for gate in self.gates if gate.outcome is each] for each in GateOutcome}
        return of[GateOutcome.FAIL] + of[GateOutcome.INCONCLUSIVE]


def judge(summary: Summary, bounds: Gates, workload: str) -> Verdict:
    """By the bounds that were written down before the run."""
    results = tuple(gate(summary, bounds, workload) for gate in _GATES)
    outcomes = {each.outcome for each in results}
    worst = next(each for each in (GateOutcome.FAIL, GateOutcome.INCONCLUSIVE, GateOutcome.PASS) if each in outcomes)
    return Verdict(worst, results)


def _load(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    """Whether enough was asked, for long enough, by a client that kept up."""
    away_share = summary.seconds[AWAY] / max(sum(summary.seconds.values()), 1e-9)
    sentence = f"{summary.requests} requests in {summary.load_s / 3600:.2f} h of load"
    if summary.requests < LEAST_REQUESTS:
        return _unsure("load", f"{sentence}, which is too few to tell", summary.requests, LEAST_REQUESTS)
    if away_share > MOST_AWAY_SHARE:
        return _unsure("load", f"{sentence}; the run was away for {away_share:.0%} of its time", away_share)
    if summary.lag_s > MOST_LAG_S:
        return _unsure("load", f"{sentence}; the load client was itself {summary.lag_s:.2f} s late", summary.lag_s)
    return GateResult("load", GateOutcome.PASS, sentence, summary.requests, LEAST_REQUESTS)


def _errors(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    share = summary.error_share
    if share is None:
        return _unsure("errors", "no request was answered or failed")
    words = f"{summary.failed} of {summary.requests - summary.refused} requests failed"
    if summary.failed and summary.errors:
        words += f" ({summary.errors[0]})"
    return _at_most("errors", share, bounds.error_share, words, lambda x: f"{x:.2%}")


def _tokens(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    words = (
        f"tokens were lost or repeated in {summary.lost} answers "
        f"({summary.shifted} of {summary.compared} that can be compared)"
    )
    if not summary.lost and not summary.compared:
        return _unsure("tokens", "no answer could be compared with an earlier one to the same question", None, 0)
    return _at_most("tokens", summary.lost, 0, words, lambda x: f"{x:.0f}")


def _crashes(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    rate = summary.crashes_per_hour
    if rate is None:
        return _unsure("crashes", "the run has not begun")
    words = f"the engine died {summary.unordered_deaths} times by itself"
    return _at_most("crashes", rate, bounds.crashes_per_hour, words, lambda x: f"{x:.3g} an hour")


def _uptime(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    share = summary.uptime
    if share is None:
        return _unsure("uptime", "the tree was never watched")
    words = f"the tree was up for {share:.3%} of the time, chaos left out"
    return _result(
        "uptime", share >= bounds.uptime_share, f"{words}; least {bounds.uptime_share:.3%}", share, bounds.uptime_share
    )


def _recovery(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    # A leak may take its time to be found; an act that this host cannot do has nothing to recover from.
    awaited = [act for act in summary.acts if act.kind != "leak" and act.over_at is not None]
    late = [act for act in awaited if act.recovered_at is None]
    slowest = max((act.recovered_at - act.at for act in awaited if act.recovered_at is not None), default=None)
    limit = bounds.recover_within_s
    if late:
        words = f"{len(late)} of {len(awaited)} acts of chaos were not over within {limit:g} s: {late[0].note}"
        return GateResult("recovery", GateOutcome.FAIL, words, len(late), 0)
    if slowest is None:
        return GateResult("recovery", GateOutcome.PASS, "there was no act of chaos to recover from")
    return GateResult(
        "recovery",
        GateOutcome.PASS,
        f"{len(awaited)} acts of chaos, the slowest over in {slowest:.1f} s",
        slowest,
        limit,
    )


def _ttft_drift(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    return _drift("ttft_drift", "TTFT", summary.ttft_drift, bounds.drift_ratio)


def _tpot_drift(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    return _drift("tpot_drift", "TPOT", summary.tpot_drift, bounds.drift_ratio)


def _drift(gate: str, name: str, found: Drift, limit: float) -> GateResult:
    if found.ratio is None or found.first_s is None or found.last_s is None or found.lower is None:
        return _unsure(gate, f"too few requests in the first or the last quarter to compare their {name}")
    words = (
        f"the p95 of {name} went from {found.first_s * 1e3:.0f} to {found.last_s * 1e3:.0f} ms, "
        f"{found.ratio:.2f} times (at least {found.lower:.2f}; most {limit:g})"
    )
    if found.ratio <= limit:
        return GateResult(gate, GateOutcome.PASS, words, found.ratio, limit)
    return GateResult(
        gate, GateOutcome.FAIL if found.lower > limit else GateOutcome.INCONCLUSIVE, words, found.ratio, limit
    )


def _memory(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    if not summary.growths:
        return _unsure("memory", "too few readings of memory to fit a slope")
    # How much over its own limit: a short part of the run is judged by its growth, a long one by its rate.
    limits = {
        each.signal: max(bounds.memory_bytes_per_hour, bounds.memory_growth_bytes / max(each.hours, 1e-9))
        for each in summary.growths
    }
    worst = max(summary.growths, key=lambda each: (each.steady, each.lower - limits[each.signal]))
    limit = limits[worst.signal]
    words = (
        f"memory ({worst.signal}) has a slope of {worst.slope / MB:.1f} MB/h "
        f"(at least {worst.lower / MB:.1f}; most {limit / MB:.1f}) over {worst.hours:.2f} h"
    )
    return _result("memory", not (worst.steady and worst.lower > limit), words, worst.lower, limit)


def _fragmentation(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    ratio = summary.fragmentation
    if ratio is None:
        return _unsure("fragmentation", "the size of MLX's pool is not known")
    words = f"MLX's pool is {ratio:.2f} times what is in use at the end"
    if ratio == 0:
        words = "MLX's pool is too small to matter at the end"
    limit = bounds.fragmentation_ratio
    return _result("fragmentation", ratio <= limit, f"{words}; most {limit:g}", ratio, limit)


def _cache_hits(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    least = bounds.cache_hit_share if bounds.cache_hit_share is not None else HIT_SHARES.get(workload, 0.0)
    share = summary.cache_hit_share
    if share is None:
        return _unsure("cache_hits", "nothing is known of cached prompt tokens", None, least)
    words = f"{share:.1%} of the prompt tokens were in the prefix cache; least {least:.1%}"
    return _result("cache_hits", share >= least, words, share, least)


def _incidents(summary: Summary, bounds: Gates, workload: str) -> GateResult:
    found = summary.unexplained
    words = f"{len(found)} incidents that no act of chaos explains"
    if found:
        words += f" ({found[0].kind}: {found[0].summary})"
    return _at_most("incidents", len(found), bounds.incidents, words, lambda x: f"{x:.0f}")


Gate = Callable[[Summary, Gates, str], GateResult]
_GATES: tuple[Gate, ...] = (
    _load,
    _errors,
    _tokens,
    _crashes,
    _uptime,
    _recovery,
    _ttft_drift,
    _tpot_drift,
    _memory,
    _fragmentation,
    _cache_hits,
    _incidents,
)
NAMES = tuple(gate.__name__.removeprefix("_") for gate in _GATES)
"""Of the gates, as metrics and reports have them."""


def _result(gate: str, kept: bool, sentence: str, value: float, limit: float) -> GateResult:
    return GateResult(gate, GateOutcome.PASS if kept else GateOutcome.FAIL, sentence, value, limit)


def _at_most(gate: str, value: float, limit: float, words: str, shown: Callable[[float], str]) -> GateResult:
    return _result(gate, value <= limit, f"{words}: {shown(value)}, most {shown(limit)}", value, limit)


def _unsure(gate: str, sentence: str, value: float | None = None, limit: float | None = None) -> GateResult:
    return GateResult(gate, GateOutcome.INCONCLUSIVE, sentence, value, limit)

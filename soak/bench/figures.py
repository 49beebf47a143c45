"""The metrics, each with its one definition, and how each follows from what was seen in one sitting. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from ..lag import Lag
from ..outcome import ERRORS, Failure, Outcome
from .estimate import quantile

Unit = Literal["s", "tok/s", "streams", "bytes", "share", "1/h", "nats", "plain"]
Better = Literal["lower", "higher"]
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One sitting: the load for `window_s` seconds, and what was seen beside it."""

    outcomes: tuple[Outcome, ...]
    window_s: float
    """Requests that began in it were finished after it; what they brought then counts to their latency alone."""
    lag: Lag
    canaries: tuple[bool, ...] = ()
    """Whether each was answered in time; they came at equal distances."""
    memory_bytes: tuple[int, ...] = ()
    """Of the target, at equal distances."""
    deaths: int | None = None
    """Of the process that computes; None where nobody can tell."""
    start_s: float | None = None
    """From its start to its word that it is ready; None where it was not started for this."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One number. `better` is which way it should go; `of` gives None where the target does not show it."""

    key: str
    title: str
    unit: Unit
    better: Better | None
    definition: str
    of: Callable[[Seen], float | None]


def tokens(outcome: Outcome) -> int:
    """Of its answer: the server's count, or one for each arrival where it says nothing."""
    if outcome.completion_tokens is not None:
        return outcome.completion_tokens
    return 0 if outcome.first_token is None else len(outcome.gaps) + 1


def arrivals(outcome: Outcome) -> list[float]:
    """When something of the answer came, in seconds of the run."""
    return [] if outcome.first_token is None else list(accumulate(outcome.gaps, initial=outcome.first_token))


def _whole(seen: Seen) -> list[Outcome]:
    return [outcome for outcome in seen.outcomes if outcome.ok]


def _ttfts(seen: Seen) -> list[float]:
    return [outcome.ttft_s for outcome in _whole(seen) if outcome.ttft_s is not None]


def _tpots(seen: Seen) -> list[float]:
    decoding = [(sum(outcome.gaps), tokens(outcome)) for outcome in _whole(seen)]
    return [seconds / (count - 1) for seconds, count in decoding if count > 1 and seconds > 0]


def _prefill(seen: Seen) -> float | None:
    rates = [
        (outcome.prompt_tokens - (outcome.cached_tokens or 0)) / (outcome.first_token - outcome.sent)
        for outcome in _whole(seen)
        if outcome.prompt_tokens is not None and outcome.first_token is not None
    ]
    return quantile(rates, 0.5)


def _throughput(seen: Seen) -> float | None:
    if not seen.window_s:
        return None
    total = 0.0
    for outcome in seen.outcomes:
        times = arrivals(outcome)
        inside = sum(time <= seen.window_s for time in times)
        total += tokens(outcome) * inside / len(times) if times else 0.0
    return total / seen.window_s


def _running(seen: Seen) -> float | None:
    busy = sum(min(outcome.ended, seen.window_s) - min(outcome.sent, seen.window_s) for outcome in seen.outcomes)
    return busy / seen.window_s if seen.window_s else None


def _cache_hits(seen: Seen) -> float | None:
    told = [(o.cached_tokens, o.prompt_tokens) for o in _whole(seen) if o.cached_tokens is not None and o.prompt_tokens]
    asked = sum(prompt or 0 for _, prompt in told)
    return sum(cached or 0 for cached, _ in told) / asked if asked else None


def _share(seen: Seen, of: Callable[[Outcome], bool]) -> float | None:
    return sum(map(of, seen.outcomes)) / len(seen.outcomes) if seen.outcomes else None


def _crashes(seen: Seen) -> float | None:
    return None if seen.deaths is None or not seen.window_s else seen.deaths * HOUR_S / seen.window_s


METRICS = (
    Metric("ttft_p50", "TTFT, median", "s", "lower", "from a request's intended start to its first text",
           lambda seen: quantile(_ttfts(seen), 0.5)),
    Metric("ttft_p95", "TTFT, p95", "s", "lower", "the same, of the slowest twentieth",
           lambda seen: quantile(_ttfts(seen), 0.95)),
    Metric("prefill", "prefill", "tok/s", "higher",
           "prompt tokens that were not cached, over the time to the first text; waiting counts", _prefill),
    Metric("decode", "decode of one request", "tok/s", "higher", "1 / TPOT of the median request",
           lambda seen: None if (tpot := quantile(_tpots(seen), 0.5)) is None else 1 / tpot),
    Metric("tpot_p50", "TPOT, median", "s", "lower", "(last text - first text) / (tokens - 1)",
           lambda seen: quantile(_tpots(seen), 0.5)),
    Metric("tpot_p95", "TPOT, p95", "s", "lower", "the same, of the slowest twentieth",
           lambda seen: quantile(_tpots(seen), 0.95)),
    Metric("pause_p99", "pause in a stream, p99", "s", "lower", "between two arrivals of text in a stream",
           lambda seen: quantile([gap for outcome in _whole(seen) for gap in outcome.gaps], 0.99)),
    Metric("throughput", "throughput", "tok/s", "higher", "output tokens of all requests over the time", _throughput),
    Metric("running", "requests at once", "streams", None, "mean number of open requests", _running),
    Metric("memory", "memory, peak", "bytes", "lower", "what the system charges the target's processes",
           lambda seen: float(max(seen.memory_bytes)) if seen.memory_bytes else None),
    Metric("cache_hits", "cache hit rate", "share", "higher", "cached share of prompt tokens, where the target tells",
           _cache_hits),
    Metric("errors", "error rate", "share", "lower", "5xx, broken streams and no connection, of all requests",
           lambda seen: _share(seen, lambda outcome: outcome.failure in ERRORS)),
    Metric("refusals", "refused", "share", "lower", "429, 503 and 529, of all requests",
           lambda seen: _share(seen, lambda outcome: outcome.failure is Failure.REFUSED)),
    Metric("insane", "wrong texts", "share", "lower", "lost tokens, broken characters, endless loops, of all requests",
           lambda seen: _share(seen, lambda outcome: bool(outcome.findings))),
    Metric("crashes", "crash rate", "1/h", "lower", "deaths of the process that computes", _crashes),
    Metric("start", "start", "s", "lower", "from the command to the word that it is ready", lambda seen: seen.start_s),
    Metric("uptime", "uptime", "share", "higher", "canaries that were answered in time, of all that were sent",
           lambda seen: sum(seen.canaries) / len(seen.canaries) if seen.canaries else None),
)  # fmt: skip
"""In the order in which a report has them."""

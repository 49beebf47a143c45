"""A run's numbers as words, one row each, the same for a terminal, a page and a comparison of two. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..keeping import Run
from ..summary import AWAY, Quantiles, Summary

UNKNOWN = "not known"
Row = tuple[str, ...]


def rows_of(run: Run) -> list[Row]:
    """What there is to say of one run: a name, and its value."""
    assert run.result is not None
    summary = run.result.summary
    return [(name, value(summary)) for name, value in _ROWS]


def rows(runs: Sequence[Run]) -> list[Row]:
    """Several side by side."""
    columns = [rows_of(run) for run in runs]
    return [(parts[0][0], *(part[1] for part in parts)) for parts in zip(*columns, strict=True)]


def _share(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}%}"


def _ms(found: Quantiles | None, which: Callable[[Quantiles], float]) -> str:
    return UNKNOWN if found is None else f"{which(found) * 1e3:.0f} ms"


def _three(found: Quantiles | None) -> str:
    if found is None:
        return UNKNOWN
    return " / ".join(_ms(found, which) for which in (lambda q: q.p50, lambda q: q.p95, lambda q: q.p99))


def _rate(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{value:.3g} {unit}"


def _memory(summary: Summary) -> str:
    return UNKNOWN if summary.footprint_bytes is None else f"{summary.footprint_bytes / 1e6:.0f} MB"


def _slopes(summary: Summary) -> str:
    found = [f"{each.slope / 1e6:+.1f} MB/h ({each.signal})" for each in summary.growths]
    return ", ".join(found) or UNKNOWN


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def span(seconds: float) -> str:
    """`3 h 05 min`, `4 min 20 s`, `12.3 s`."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {whole % 60:02d} s" if minutes else f"{seconds:.1f} s"


_ROWS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("time under load", lambda s: span(s.load_s)),
    ("away", lambda s: span(s.seconds[AWAY])),
    ("uptime, chaos left out", lambda s: _share(s.uptime, 3)),
    ("down", lambda s: f"{span(s.seconds['down'])}, of it by chaos {span(s.excused_down_s)}"),
    ("requests", lambda s: f"{s.requests}, of them resumed {s.resumed}"),
    ("error rate", lambda s: _share(s.error_share, 3)),
    ("failures", lambda s: _counted(s.failures)),
    ("TTFT p50 / p95 / p99", lambda s: _three(s.ttft)),
    ("TPOT p50 / p95 / p99", lambda s: _three(s.tpot)),
    ("TTFT of requests that met chaos", lambda s: _three(s.disturbed_ttft)),
    ("TTFT drift, last over first quarter", lambda s: _ratio(s.ttft_drift.ratio)),
    ("TPOT drift, last over first quarter", lambda s: _ratio(s.tpot_drift.ratio)),
    ("throughput", lambda s: _rate(s.tokens_per_s, "tok/s")),
    ("memory, engine and service", _memory),
    ("memory slope", _slopes),
    ("fragmentation", lambda s: _ratio(s.fragmentation)),
    ("cache hit rate", lambda s: _share(s.cache_hit_share)),
    ("engine deaths", lambda s: f"{s.deaths}, by itself {s.unordered_deaths}"),
    ("crash rate", lambda s: _rate(s.crashes_per_hour, "an hour")),
    ("answers compared", lambda s: f"{s.compared}, tokens lost or repeated {s.shifted}, drawn otherwise {s.altered}"),
    ("texts that look wrong", lambda s: _counted(s.findings)),
    ("incidents", lambda s: f"{len(s.incidents)}, unexplained {len(s.unexplained)}"),
    ("acts of chaos", lambda s: str(len(s.acts))),
    ("load client late", lambda s: f"{s.lag_s * 1e3:.0f} ms at an interval's p99"),
)

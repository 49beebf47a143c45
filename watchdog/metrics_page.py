"""`docs/metrics.md`, made from what is declared: every metric of the service and of the watchdog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from ..service.metrics import PREFIX, READINGS, Metrics
from .metrics import WatchdogMetrics
from .watch_metrics import WatchMetrics

HEAD = """# Metrics

`stoker metrics` makes this page, and a test keeps it what the code declares. Every name begins with `stoker_`, units
are seconds and bytes. What a host or an engine cannot tell is absent, never 0. `/metrics` answers in Prometheus' text
format or, when asked for it, in OpenMetrics; there a latency carries the id of a request's trace, which
`stoker status --trace ID` shows.
"""
SERVICE = """The service exports these on the API's port. Those that begin with `stoker_engine_`, `stoker_prefix_cache_`
and `stoker_speculative_` are relayed from the engine's heartbeats: gauges are absent while there is no engine,
counters are those of all engines since the service began."""
WATCHDOG = "The watchdog exports these on its own port, so that they are there when all else is down."


@dataclass(frozen=True)
class Row:
    """One metric, by the name that a query uses."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## Service", SERVICE, _table(service_rows()), "## Watchdog", WATCHDOG, _table(watchdog_rows())]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def service_rows() -> list[Row]:
    """What the service declares."""
    read = [
        _row(PREFIX + each.name, "counter" if each.counts else "gauge", each.labels, each.help) for each in READINGS
    ]
    return sorted([*_registered(Metrics().registry), *read], key=lambda row: row.name)


def watchdog_rows() -> list[Row]:
    """What the watchdog declares."""
    registry = WatchdogMetrics().registry
    WatchMetrics(registry, journal_dropped=lambda: 0)
    return sorted(_registered(registry), key=lambda row: row.name)


def _registered(registry: CollectorRegistry) -> Iterator[Row]:
    # The library tells a metric's labels to nobody; without a sample of each, this is where they are.
    for collector in {id(each): each for each in registry._names_to_collectors.values()}.values():
        for family in getattr(collector, "describe", collector.collect)():
            labels = getattr(collector, "_labelnames", getattr(family, "_labelnames", ()))
            yield _row(family.name, family.type, tuple(labels), family.documentation)


def _row(name: str, kind: str, labels: tuple[str, ...], text: str) -> Row:
    return Row(f"{name}_total" if kind == "counter" else name, kind, labels, text)


def _table(rows: list[Row]) -> str:
    lines = [f"| `{row.name}` | {row.kind} | {', '.join(row.labels)} | {row.help} |" for row in rows]
    return "\n".join(["| name | type | labels | what it says |", "|---|---|---|---|", *lines])

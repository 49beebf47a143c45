"""What a Prometheus answers to a board's queries, as `page.jsx` draws it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stoker.dashboards.check import Prometheus
from stoker.dashboards.panels import MARKS, Board, Kind, Panel, Query
from tests.dashboards.prometheus_server import SCRAPE_S, ask, ask_range, exemplars

POINTS = 180
CELLS = 60
"""Of a heatmap, from left to right."""
MOST_EXEMPLARS = 60


@dataclass(frozen=True)
class Source:
    """A Prometheus, and the time that is drawn, in seconds since the epoch."""

    url: str
    begins: float
    ends: float

    @property
    def step(self) -> float:
        return max(float(SCRAPE_S), (self.ends - self.begins) / POINTS)

    def filled_in(self, expr: str, rate_s: float = 0.0) -> str:
        return Prometheus(self.url, self.ends - self.begins, max(4 * SCRAPE_S, self.step, rate_s)).filled_in(expr)


def answers_to(board: Board, source: Source) -> list[dict[str, Any]]:
    """One a panel, in the board's order."""
    return [
        {
            "series": [series for query in panel.queries for series in _series(panel, query, source)],
            "step": _step(panel, source),
            "absent": next((query.absent.value for query in panel.queries if query.absent is not None), None),
            "exemplars": list(_exemplars(panel, source)),
        }
        for panel in board.panels
    ]


def marks(source: Source) -> list[dict[str, Any]]:
    """When each restart and incident began."""
    found = []
    for mark in MARKS:
        for series in ask_range(source.url, mark.expr, source.begins, source.ends, source.step):
            found.append({"at": series["values"][0][0], "icon": mark.colour})
    return found


def _series(panel: Panel, query: Query, source: Source) -> Iterator[dict[str, Any]]:
    if query.instant or panel.kind is Kind.STAT:
        found = ask(source.url, source.filled_in(query.expr), source.ends)
        told = [(each["metric"], [each["value"]]) for each in found]
    else:
        step = _step(panel, source)
        expr = source.filled_in(query.expr, rate_s=step)
        found = ask_range(source.url, expr, source.begins, source.ends, step)
        told = [(each["metric"], each["values"]) for each in found]
    for labels, values in told:
        numbers = [[at, float(value)] for at, value in values if not math.isnan(float(value))]
        if numbers:
            yield {"name": _name(query.legend, labels), "values": numbers}


def _step(panel: Panel, source: Source) -> float:
    return (source.ends - source.begins) / CELLS if panel.kind is Kind.HEATMAP else source.step


def _name(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)


def _exemplars(panel: Panel, source: Source) -> Iterator[dict[str, Any]]:
    wanted = [query for query in panel.queries if query.exemplars]
    if panel.kind is Kind.TIME and wanted:
        found = exemplars(source.url, source.filled_in(wanted[0].expr), source.begins, source.ends)
        points = {(each["timestamp"], each["value"]) for series in found for each in series["exemplars"]}
        for at, value in sorted(points)[:: max(1, len(points) // MOST_EXEMPLARS)]:
            yield {"at": float(at), "value": float(value)}

"""Every query of every board against a live Prometheus: which fail, and which are empty without a reason.

The HTTP interface: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
import math
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPException
from typing import Any

from .panels import MARKS, Absent, Board

DEADLINE_S = 30.0
POINTS = 60
"""Of a range query: what a panel would ask for is more, but finds no other series."""
_LABEL_VALUES = re.compile(r"label_values\(([^,]+), *(\w+)\)")


class PrometheusUnreachable(Exception):
    """Nothing that speaks Prometheus' interface answers at the address."""


class Outcome(StrEnum):
    """What came of a query. `absent` is empty for a reason that the board knows."""

    DATA = "data"
    ABSENT = "absent"
    EMPTY = "empty"
    FAILED = "failed"


@dataclass(frozen=True)
class Asked:
    """A query of a board: where it stands, and what it says there."""

    board: str
    place: str
    expr: str
    absent: Absent | None
    instant: bool = False


@dataclass(frozen=True)
class Answer:
    """What came of it, and why: the error, or the reason for having none."""

    asked: Asked
    outcome: Outcome
    why: str | None = None


def queries(boards: Iterable[Board]) -> Iterator[Asked]:
    """Every panel's, variable's and annotation's query."""
    for board in boards:
        for panel in board.panels:
            for query in panel.queries:
                yield Asked(board.title, panel.title, query.expr, query.absent, query.instant)
        for variable in board.variables:
            yield Asked(board.title, f"variable {variable.name}", variable.query, variable.absent)
        for mark in MARKS:
            yield Asked(board.title, f"annotation {mark.name}", mark.expr, mark.absent)


def check(boards: Iterable[Board], prometheus: Prometheus) -> Iterator[Answer]:
    """Ask them all. Raises `PrometheusUnreachable`."""
    for asked in queries(boards):
        try:
            found = prometheus.has_data(asked)
        except QueryFailed as error:
            yield Answer(asked, Outcome.FAILED, str(error))
            continue
        if found:
            yield Answer(asked, Outcome.DATA)
        elif asked.absent is not None:
            yield Answer(asked, Outcome.ABSENT, asked.absent.value)
        else:
            yield Answer(asked, Outcome.EMPTY)


class QueryFailed(Exception):
    """Prometheus refused a query; the message is its own."""


class Prometheus:
    """One server, and the time range and rate interval that Grafana would fill in, in seconds."""

    def __init__(self, url: str, range_s: float, rate_interval_s: float) -> None:
        self._url = url.rstrip("/")
        self._range_s = range_s
        self._rate_interval_s = rate_interval_s
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def has_data(self, asked: Asked) -> bool:
        """Whether any number comes back. Raises `QueryFailed` or `PrometheusUnreachable`."""
        values = _LABEL_VALUES.fullmatch(asked.expr)
        if values is not None:
            return bool(self._get(f"/api/v1/label/{values[2]}/values", {"match[]": values[1]}))
        now = time.time()
        query = self.filled_in(asked.expr)
        if asked.instant:
            series = self._get("/api/v1/query", {"query": query, "time": now})["result"]
            return any(_is_number(each["value"]) for each in series)
        step = max(1.0, self._range_s / POINTS)
        times = {"start": now - self._range_s, "end": now, "step": step}
        series = self._get("/api/v1/query_range", {"query": query, **times})["result"]
        return any(_is_number(value) for each in series for value in each["values"])

    def filled_in(self, expr: str) -> str:
        """The query with Grafana's variables replaced; a board's own ones mean all."""
        expr = expr.replace("$__rate_interval", f"{self._rate_interval_s:.0f}s").replace(
            "$__range", f"{self._range_s:.0f}s"
        )
        return re.sub(r"\$\w+", ".*", expr)

    def _get(self, path: str, parameters: dict[str, Any]) -> Any:
        url = f"{self._url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with self._http.open(url, timeout=DEADLINE_S) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise QueryFailed(_message(error)) from error
        except (OSError, HTTPException, ValueError, KeyError) as error:
            raise PrometheusUnreachable(
                f"no Prometheus answers at {self._url} ({error}); give its address with --prometheus"
            ) from error


def _is_number(value: list[Any]) -> bool:
    """A quantile of no observations is NaN, which a panel does not draw."""
    return not math.isnan(float(value[1]))


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, OSError):
        return f"HTTP status {error.code}"

"""What a board, a panel and a query are in this house, before any Grafana.

House style: a panel's title is a noun or a question, its description says what is bad, its unit is set, its
thresholds say when to look. Rates span `$__rate_interval`, whole ranges `$__range`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from .links import Link

GREEN, YELLOW, RED, BLUE, GREY = "green", "yellow", "red", "blue", "text"
WIDTH = 24
QUANTILES = (0.5, 0.95, 0.99)
COUNT = "none"
"""Grafana's unit of plain numbers."""
_DECIMALS = {COUNT: 0, "percentunit": 2}
"""Of figures: `increase` guesses beyond the first and last sample, and half a restart is none."""


class Kind(StrEnum):
    """How a panel shows its numbers."""

    TIME = "timeseries"
    STAT = "stat"
    STATES = "state-timeline"
    HEATMAP = "heatmap"


class Absent(StrEnum):
    """Why a query may rightly have no data: what the host, the engine or the run lacks."""

    THERMAL = "this host tells no temperatures"
    CLOCK = "this host tells no clock speeds"
    PRESSURE = "only macOS tells a memory pressure level"
    SWAP = "this host has no swap"
    LEAK = "a slope needs hours of samples"
    SLOWDOWN = "a usual speed has to be learnt first"
    RESUMES = "no engine died in this range"
    SHED = "nothing was turned away in this range"
    ERRORS = "nothing failed in this range"
    DRAFTS = "nothing was drafted in this range"
    CANARY = "no canary was sent in this range"
    LIMIT = "only Metal has a limit"
    SOAK = "no soak test ran in this range"
    INCIDENTS = "nothing went wrong in this range"


@dataclass(frozen=True)
class Query:
    """One PromQL expression; `legend` is Grafana's template of a series' name."""

    expr: str
    legend: str = ""
    instant: bool = False
    exemplars: bool = False
    absent: Absent | None = None


@dataclass(frozen=True)
class Panel:
    """One panel; `steps` are (from this value, this colour), ascending, the first from None."""

    title: str
    bad: str
    """The description: what is bad, and where to look then."""
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = Kind.TIME
    steps: tuple[tuple[float | None, str], ...] = ((None, GREEN),)
    width: int = 12
    height: int = 8
    stacked: bool = False
    decimals: int | None = None
    least: float | None = 0
    most: float | None = None
    states: tuple[tuple[str, str, str], ...] = ()
    """Of a state timeline: (value, text, colour)."""
    links: tuple[Link, ...] = ()
    """In the panel's corner."""
    behind: Link | None = None
    """What a point leads to."""


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Variable:
    """A choice at the board's top, filled by a query such as `label_values(metric, label)`."""

    name: str
    label: str
    query: str
    absent: Absent | None = None


@dataclass(frozen=True)
class Board:
    """One dashboard; `uid` is its address for ever."""

    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()
    since: str = "now-6h"

    @property
    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels


@dataclass(frozen=True)
class Mark:
    """Something that happened, drawn on every time series of every board."""

    name: str
    expr: str
    title: str
    colour: str
    absent: Absent


MARKS = (
    Mark(
        "Restarts",
        "sum by (model, reason) (increase(stoker_engine_restarts_total[1m])) > 0",
        "{{model}} restarted: {{reason}}",
        RED,
        Absent.RESUMES,
    ),
    Mark(
        "Incidents",
        "sum by (kind) (increase(stoker_incidents_total[1m])) > 0",
        "{{kind}}",
        YELLOW,
        Absent.INCIDENTS,
    ),
)


def rate(metric: str, by: str = "", where: str = "") -> str:
    """Per second, summed."""
    return f"sum{_by(by)} (rate({metric}{where}[$__rate_interval]))"


def over_range(metric: str, by: str = "", where: str = "") -> str:
    """How many in the whole time range, summed."""
    return f"sum{_by(by)} (increase({metric}{where}[$__range]))"


def quantile(share: float, histogram: str, window: str = "$__rate_interval") -> str:
    """Below which value this share of observations is."""
    return f"histogram_quantile({share}, sum by (le) (rate({histogram}_bucket[{window}])))"


def figure(
    title: str,
    bad: str,
    query: Query,
    *,
    unit: str = COUNT,
    steps: tuple[tuple[float | None, str], ...] = ((None, GREEN),),
    width: int,
    height: int = 5,
    least: float | None = 0,
    most: float | None = None,
    links: tuple[Link, ...] = (),
) -> Panel:
    """One number now, or one a series, in the colour of its step."""
    return Panel(
        title,
        bad,
        unit,
        (query,),
        Kind.STAT,
        steps,
        width,
        height,
        decimals=_DECIMALS.get(unit),
        least=least,
        most=most,
        links=links,
    )


def latency(
    title: str,
    bad: str,
    histogram: str,
    look_at_s: float,
    alarm_s: float,
    *,
    absent: Absent | None = None,
    width: int = 12,
    links: tuple[Link, ...] = (),
    behind: Link | None = None,
) -> Panel:
    """A latency's usual quantiles over time, with exemplars that lead to traces."""
    queries = tuple(
        Query(quantile(share, histogram), f"p{share * 100:g}", exemplars=True, absent=absent) for share in QUANTILES
    )
    steps = ((None, GREEN), (look_at_s, YELLOW), (alarm_s, RED))
    return Panel(title, bad, "s", queries, steps=steps, width=width, links=links, behind=behind)


def heatmap(title: str, bad: str, histogram: str) -> Panel:
    """How a latency is spread over time."""
    query = Query(f"sum by (le) (increase({histogram}_bucket[$__rate_interval]))", "{{le}}", exemplars=True)
    return Panel(title, bad, "s", (query,), kind=Kind.HEATMAP, least=None)


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""

"""The charts of a report. Colours stand on light and on dark ground; the page sets what lies behind them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import Any

import plotly.graph_objects as go

from ..growth import Growth
from ..intervals import Interval, Spell
from ..keeping import Run
from ..summary import Summary
from .series import Point, points, states

COLORS = {"up": "#2f9e6e", "down": "#d9485f", "off": "#8a8f98", "away": "#c98a1b"}
LINES = ("#3b82c4", "#d9772b", "#2f9e6e", "#a05cc0", "#c2416b", "#7a8b2a", "#3aa6a6", "#8a6d4f")
GREY = "#8a8f98"
SHORTEST_SHARE = 0.0015
"""Of the run: a restart of two seconds would be no pixel of three days."""
MB = 1e6
GAP_STEPS = 2.5


def figures(run: Run, intervals: Sequence[Interval]) -> dict[str, go.Figure]:
    """By title, in the order in which they are read."""
    assert run.result is not None
    summary = run.result.summary
    over_time = points(intervals)
    return {
        "State of the tree": _timeline(summary, states(run.began_at, intervals)),
        "Latency": _latency(over_time),
        "Throughput": _throughput(over_time),
        "Memory by kind": _memory(over_time),
        "Memory that load does not explain": _growth(intervals, summary.growths),
        "Prefix cache": _cache(over_time),
    }


def _when(at: float) -> datetime:
    """In this machine's time zone, of which a chart knows nothing."""
    return datetime.fromtimestamp(at, UTC).astimezone().replace(tzinfo=None)


def _figure(height: int, **layout: Any) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin={"l": 64, "r": 16, "t": 8, "b": 32},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": GREY},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="x unified",
        **layout,
    )
    figure.update_xaxes(type="date", gridcolor="rgba(138,143,152,.18)", zeroline=False)
    figure.update_yaxes(gridcolor="rgba(138,143,152,.18)", zeroline=False, rangemode="tozero")
    return figure


def _timeline(summary: Summary, spells: Sequence[Spell]) -> go.Figure:
    figure = _figure(190, barmode="overlay", bargap=0.1)
    least_s = SHORTEST_SHARE * (summary.until - summary.began_at)
    for state, color in COLORS.items():
        of_state = [spell for spell in spells if spell.state == state]
        if not of_state:
            continue
        figure.add_bar(
            orientation="h",
            y=["tree"] * len(of_state),
            base=[_when(spell.since) for spell in of_state],
            x=[1e3 * max(spell.seconds, least_s) for spell in of_state],
            customdata=[spell.seconds for spell in of_state],
            hovertemplate=f"{state} for %{{customdata:.1f}} s<extra></extra>",
            marker={"color": color, "line": {"width": 0}},
            name=state,
        )
    _marks(figure, "chaos", [act.at for act in summary.acts], [act.kind for act in summary.acts], "triangle-down")
    incidents = [each.incident for each in summary.incidents]
    kinds = [
        each.kind if told.by is None else f"{each.kind} (chaos)"
        for each, told in zip(incidents, summary.incidents, strict=True)
    ]
    _marks(figure, "incidents", [each.opened_at for each in incidents], kinds, "diamond")
    figure.update_layout(hovermode="closest")
    return figure


def _marks(figure: go.Figure, name: str, at: Sequence[float], words: Sequence[str], symbol: str) -> None:
    if at:
        figure.add_scatter(
            x=[_when(each) for each in at],
            y=[name] * len(at),
            text=list(words),
            mode="markers",
            marker={"symbol": symbol, "size": 9, "color": LINES[3] if name == "chaos" else LINES[4]},
            hovertemplate="%{text}<extra></extra>",
            name=name,
        )


def _line(
    figure: go.Figure, name: str, at: Sequence[float], values: Sequence[float | None], color: str, **more: Any
) -> None:
    times, values = _broken(at, values)
    figure.add_scatter(
        x=times,
        y=values,
        name=name,
        mode="lines",
        connectgaps=False,
        **{"line": {"color": color, "width": 2}, **more},
    )


def _broken(at: Sequence[float], values: Sequence[float | None]) -> tuple[list[datetime], list[float | None]]:
    """No line leads over the time in which the run was away."""
    usual_s = median(later - earlier for earlier, later in pairwise(at)) if len(at) > 2 else 0.0
    times: list[datetime] = []
    drawn: list[float | None] = []
    for number, (each, value) in enumerate(zip(at, values, strict=True)):
        if number and usual_s and each - at[number - 1] > GAP_STEPS * usual_s:
            times.append(_when(each - usual_s))
            drawn.append(None)
        times.append(_when(each))
        drawn.append(value)
    return times, drawn


def _latency(over_time: Sequence[Point]) -> go.Figure:
    figure = _figure(300, yaxis={"title": {"text": "milliseconds"}, "type": "log"})
    at = [point.at for point in over_time]
    for name, color, values in (
        ("TTFT p95", LINES[1], [point.ttft_p95 for point in over_time]),
        ("TTFT p50", LINES[0], [point.ttft_p50 for point in over_time]),
        ("TPOT p95", LINES[3], [point.tpot_p95 for point in over_time]),
        ("TPOT p50", LINES[2], [point.tpot_p50 for point in over_time]),
    ):
        _line(figure, name, at, [None if value is None else 1e3 * value for value in values], color)
    return figure


def _throughput(over_time: Sequence[Point]) -> go.Figure:
    figure = _figure(
        260,
        yaxis={"title": {"text": "output tok/s"}},
        yaxis2={
            "title": {"text": "requests"},
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "rangemode": "tozero",
        },
    )
    figure.update_layout(margin={"r": 64})
    at = [point.at for point in over_time]
    _line(figure, "output tok/s", at, [point.tokens_per_s for point in over_time], LINES[0])
    _line(figure, "running at once", at, [point.concurrency for point in over_time], LINES[2], yaxis="y2")
    failed = [point for point in over_time if point.failed]
    if failed:
        figure.add_bar(
            x=[_when(point.at) for point in failed],
            y=[point.failed for point in failed],
            name="failed or refused",
            marker={"color": COLORS["down"]},
            yaxis="y2",
        )
    return figure


def _memory(over_time: Sequence[Point]) -> go.Figure:
    figure = _figure(300, yaxis={"title": {"text": "MB"}})
    kinds = sorted({kind for point in over_time for kind in point.memory})
    for number, kind in enumerate(kinds):
        values = [point.memory[kind] / MB if kind in point.memory else None for point in over_time]
        _line(figure, kind, [point.at for point in over_time], values, LINES[number % len(LINES)])
    return figure


def _growth(intervals: Sequence[Interval], growths: Sequence[Growth]) -> go.Figure:
    figure = _figure(300, yaxis={"title": {"text": "MB, lowest of each interval"}})
    for number, found in enumerate(growths):
        lows = [each.lows[found.signal] for each in intervals if found.signal in each.lows]
        color = LINES[number % len(LINES)]
        figure.add_scatter(
            x=[_when(low.at) for low in lows],
            y=[low.value / MB for low in lows],
            mode="markers",
            marker={"color": color, "size": 4, "opacity": 0.55},
            name=found.signal,
        )
        _line(
            figure,
            f"{found.slope / MB:+.1f} MB/h (at least {found.lower / MB:+.1f})",
            found.at,
            [value / MB for value in found.fitted],
            color,
            line={"color": color, "width": 2, "dash": "dash"},
        )
    return figure


def _cache(over_time: Sequence[Point]) -> go.Figure:
    figure = _figure(220, yaxis={"title": {"text": "of prompt tokens"}, "tickformat": ".0%", "range": [0, 1]})
    _line(figure, "hit rate", [point.at for point in over_time], [point.hit_share for point in over_time], LINES[2])
    return figure

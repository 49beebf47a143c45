"""From a board to the JSON that Grafana 10 to 13 loads (the classic schema), the same bytes each time."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from .boards import BOARDS
from .links import RUNBOOKS, RUNBOOKS_AT, TEMPO, Link
from .panels import COUNT, MARKS, WIDTH, Board, Kind, Mark, Panel, Query, Row, Variable
from .sdk import (
    JSONEncoder,
    common,
    common_models,
    dashboard,
    heatmap,
    heatmap_models,
    models,
    prometheus,
    prometheus_models,
    stat,
    statetimeline,
    timeseries,
)

FOLDER = Path(__file__).parent / "json"
SOURCE = common_models.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "stoker"
ROW_HEIGHT = 1
NOTHING = "none"
"""What a count shows that has no series above 0."""

Builder = timeseries.Panel | stat.Panel | statetimeline.Panel | heatmap.Panel


def build(folder: Path = FOLDER) -> list[Path]:
    """Write every board's file; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for board in BOARDS:
        path = folder / f"{board.uid}.json"
        path.write_text(as_json(board), encoding="utf-8")
        paths.append(path)
    return paths


def as_json(board: Board) -> str:
    """One board as Grafana reads it."""
    with warnings.catch_warnings():
        # As at its import: the SDK would rather build its next schema.
        warnings.simplefilter("ignore", DeprecationWarning)
        made = _dashboard(board).build()
    return json.dumps(made, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _dashboard(board: Board) -> dashboard.Dashboard:
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags([TAG])
        .time(board.since, "now")
        .timezone("browser")
        .refresh("30s")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(dashboard.DatasourceVariable(TEMPO).label("Tempo").type("tempo"))
        .with_variable(
            dashboard.TextBoxVariable(RUNBOOKS).default_value(RUNBOOKS_AT).hide(models.VariableHide.HIDE_VARIABLE)
        )
        .link(
            dashboard.DashboardLink("Stoker")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .keep_time(True)
            .include_vars(True)
        )
    )
    for variable in board.variables:
        made = made.with_variable(_variable(variable))
    for mark in MARKS:
        made = made.annotation(_annotation(mark))
    y, number = 0, 1
    for row in board.rows:
        heading = dashboard.Row(row.title).id(number).grid_pos(models.GridPos(h=ROW_HEIGHT, w=WIDTH, x=0, y=y))
        made, y, number = made.with_row(heading), y + ROW_HEIGHT, number + 1
        for panel, position in _placed(row, y):
            made, number = made.with_panel(_panel(panel).id(number).grid_pos(position)), number + 1
            y = max(y, position.y + position.h)
    return made


def _placed(row: Row, top: int) -> list[tuple[Panel, models.GridPos]]:
    """Left to right, and a new line where the width is used up."""
    placed, x, y, line = [], 0, top, 0
    for panel in row.panels:
        if x + panel.width > WIDTH:
            x, y, line = 0, y + line, 0
        placed.append((panel, models.GridPos(h=panel.height, w=panel.width, x=x, y=y)))
        x, line = x + panel.width, max(line, panel.height)
    return placed


def _panel(panel: Panel) -> Builder:
    made = _of_kind(panel)
    made = made.title(panel.title).description(panel.bad).unit(panel.unit).datasource(SOURCE)
    steps = [models.Threshold(value, colour) for value, colour in panel.steps]
    made = made.thresholds(dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    if panel.least is not None:
        made = made.min(panel.least)
    if panel.most is not None:
        made = made.max(panel.most)
    if panel.decimals is not None:
        made = made.decimals(panel.decimals)
    made = made.links([_link(link) for link in panel.links])
    if panel.behind is not None:
        made = made.data_links([_link(panel.behind)])
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        made = made.with_target(_query(query, letter, panel.kind))
    return made


def _of_kind(panel: Panel) -> Builder:
    match panel.kind:
        case Kind.STAT:
            return _figure(panel)
        case Kind.STATES:
            return statetimeline.Panel().mappings(_mappings(panel)).span_nulls(False)
        case Kind.HEATMAP:
            axis = heatmap.YAxisConfig().unit(panel.unit)
            colour = heatmap.HeatmapColorOptions().mode(heatmap_models.HeatmapColorMode.SCHEME).scheme("Oranges")
            return heatmap.Panel().calculate(False).y_axis(axis).color(colour)
        case Kind.TIME:
            return _lines(panel)


def _figure(panel: Panel) -> stat.Panel:
    color = dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS)
    last = common.ReduceDataOptions().calcs(["lastNotNull"])
    # Left to itself, Grafana names no series where there is only one.
    named = any(query.legend for query in panel.queries)
    text = common_models.BigValueTextMode.VALUE_AND_NAME if named else common_models.BigValueTextMode.VALUE
    made = stat.Panel().color_scheme(color).reduce_options(last).text_mode(text)
    return made.no_value(NOTHING) if panel.unit == COUNT else made


def _lines(panel: Panel) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .show_legend(True)
        .placement(common_models.LegendPlacement.BOTTOM)
        .display_mode(common_models.LegendDisplayMode.LIST)
    )
    made = timeseries.Panel().legend(legend).line_width(1).fill_opacity(30 if panel.stacked else 8)
    if panel.stacked:
        made = made.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL))
    if len(panel.steps) > 1:
        dashed = common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED)
        made = made.thresholds_style(dashed)
    return made


def _mappings(panel: Panel) -> list[Any]:
    options = {value: models.ValueMappingResult(text=text, color=colour) for value, text, colour in panel.states}
    return [models.ValueMap(options=options)]


def _link(link: Link) -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink(link.title)
        .type(models.DashboardLinkType.LINK)
        .icon("external link")
        .url(link.url)
        .target_blank(True)
    )


def _query(query: Query, letter: str, kind: Kind) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(query.expr).ref_id(letter).legend_format(query.legend).datasource(SOURCE)
    made = made.exemplar(query.exemplars)
    if kind is Kind.HEATMAP:
        made = made.format(prometheus_models.PromQueryFormat.HEATMAP)
    return made.instant() if query.instant else made.range()


def _variable(variable: Variable) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .query(variable.query)
        .datasource(SOURCE)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    )


def _annotation(mark: Mark) -> dashboard.AnnotationQuery:
    return (
        dashboard.AnnotationQuery()
        .name(mark.name)
        .datasource(SOURCE)
        .enable(True)
        .icon_color(mark.colour)
        .expr(mark.expr)
        .title_format(mark.title)
        .step("60s")
    )

"""The boards keep their house style, name only metrics that exist, and are committed as they are built."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import promql_parser
import pytest

from stoker.alerts.runbooks import page, runbook_url
from stoker.dashboards.boards import BOARDS
from stoker.dashboards.build import FOLDER, as_json, build
from stoker.dashboards.check import Asked, Prometheus, queries
from stoker.dashboards.links import RUNBOOKS_AT, Link, to_slower
from stoker.dashboards.panels import WIDTH, Board, Kind, Panel
from stoker.service.telemetry import LATENCY_FIRST_TOKEN
from stoker.watchdog.metrics_page import service_rows, watchdog_rows

PICTURES = Path(__file__).parent.parent.parent / "docs" / "pictures"
PANELS = [(board, panel) for board in BOARDS for panel in board.panels]
QUERIES = list(queries(BOARDS))
FILLED_IN = Prometheus("http://unused", range_s=300, rate_interval_s=60)


def declared() -> set[str]:
    """Every series name that the two processes export."""
    names = {"up"}
    for row in (*service_rows(), *watchdog_rows()):
        names.add(row.name)
        if row.kind == "histogram":
            names |= {f"{row.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def metrics_in(node: Any) -> Iterator[str]:
    """The names of all vector selectors below a node of a parsed query."""
    for attribute in ("expr", "lhs", "rhs", "vector_selector", "vs"):
        child = getattr(node, attribute, None)
        if child is not None:
            yield from metrics_in(child)
    for child in getattr(node, "args", None) or ():
        yield from metrics_in(child)
    if isinstance(node, promql_parser.VectorSelector) and node.name:
        yield node.name


def name_of(asked: Asked) -> str:
    return f"{asked.board}: {asked.place}"


@pytest.mark.parametrize("asked", [each for each in QUERIES if "label_values" not in each.expr], ids=name_of)
def test_a_query_parses_and_names_only_declared_metrics(asked: Asked) -> None:
    named = set(metrics_in(promql_parser.parse(FILLED_IN.filled_in(asked.expr))))
    assert named
    assert named <= declared()


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=lambda each: each.title)
def test_a_panel_says_what_is_bad(board: Board, panel: Panel) -> None:
    assert panel.bad.endswith(".")
    assert len(panel.bad) > 25
    assert panel.unit
    assert panel.steps[0][0] is None
    bounds = [bound for bound, _ in panel.steps[1:]]
    assert bounds == sorted(bound for bound in bounds if bound is not None)
    assert 0 < panel.width <= WIDTH
    assert len(panel.queries) <= 8


@pytest.mark.parametrize("asked", QUERIES, ids=name_of)
def test_a_rate_spans_what_grafana_asks_for(asked: Asked) -> None:
    # Fixed windows only where the window is the point: budget burn, canaries, annotations.
    if "rate(" in asked.expr and "burn" not in asked.place and "Canary" not in asked.place:
        assert "$__rate_interval" in asked.expr or "$__range" in asked.expr


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_titles_and_ids_are_unique_and_panels_do_not_overlap(board: Board) -> None:
    made = json.loads(as_json(board))
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    titles = [panel.title for panel in board.panels]
    assert len(set(titles)) == len(titles)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= WIDTH
        taken |= cells


LINKS = [(board, panel, link) for board, panel in PANELS for link in (*panel.links, *filter(None, [panel.behind]))]
BUILT_IN = {"__url_time_range", "__all_variables", "__value.raw", "__from", "__to"}


@pytest.mark.parametrize(("board", "panel", "link"), LINKS, ids=lambda each: getattr(each, "url", each.title))
def test_a_link_uses_only_variables_that_are_filled_in(board: Board, panel: Panel, link: Link) -> None:
    variables = {each["name"] for each in json.loads(as_json(board))["templating"]["list"]}
    assert set(re.findall(r"\$\{([\w.]+)\}", link.url)) <= variables | BUILT_IN
    if link.url.startswith("/d/"):
        assert link.url.removeprefix("/d/").partition("?")[0] in {each.uid for each in BOARDS}


def test_what_to_do_is_where_the_alert_of_the_same_has_it() -> None:
    assert runbook_url("StokerLeak") == f"{RUNBOOKS_AT}/StokerLeak"
    linked = {link.url.rpartition("/")[2] for _, _, link in LINKS if link.url.startswith("${runbooks}/")}
    assert linked
    assert all(page(alert) for alert in linked)


def test_a_point_of_a_latency_leads_to_the_traces_that_were_as_slow() -> None:
    parts = parse_qs(urlsplit(to_slower(LATENCY_FIRST_TOKEN).url).query)
    (pane,) = json.loads(parts["panes"][0]).values()
    (query,) = pane["queries"]
    assert query["query"] == "{ span.gen_ai.latency.time_to_first_token >= ${__value.raw} }"
    assert query["datasource"] == {"type": "tempo", "uid": "${tempo}"}
    assert pane["range"] == {"from": "${__from}", "to": "${__to}"}


def test_every_board_leads_to_the_others() -> None:
    for board in BOARDS:
        (link,) = json.loads(as_json(board))["links"]
        assert link["type"] == "dashboards"
        assert link["tags"] == json.loads(as_json(board))["tags"]
        assert link["keepTime"]


def test_every_time_series_shows_restarts_and_incidents() -> None:
    for board in BOARDS:
        names = [mark["name"] for mark in json.loads(as_json(board))["annotations"]["list"]]
        assert names == ["Restarts", "Incidents"]


def test_latencies_carry_exemplars() -> None:
    latencies = [panel for _, panel in PANELS if panel.kind is Kind.HEATMAP or panel.title.startswith("Time to first")]
    assert any(query.exemplars for panel in latencies for query in panel.queries)


def test_a_figure_of_one_series_is_named_where_its_name_matters() -> None:
    for board in BOARDS:
        for made in json.loads(as_json(board))["panels"]:
            if made["type"] == "stat":
                named = any(target.get("legendFormat") for target in made["targets"])
                assert made["options"]["textMode"] == ("value_and_name" if named else "value"), made["title"]


def test_the_committed_boards_are_those_that_are_built(tmp_path: Path) -> None:
    for made in build(tmp_path):
        assert (FOLDER / made.name).read_text() == made.read_text(), "run `stoker dashboards build`"
    assert {file.name for file in FOLDER.glob("*")} == {f"{board.uid}.json" for board in BOARDS}


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_a_board_has_a_picture_that_a_page_can_afford(board: Board) -> None:
    picture = PICTURES / f"{board.uid}.png"
    assert picture.read_bytes().startswith(b"\x89PNG"), "run `make pictures`"
    assert picture.stat().st_size < 200_000

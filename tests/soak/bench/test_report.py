"""A report says the same in every form, marks only what is decided, and its page needs nothing but itself."""

from __future__ import annotations

from html.parser import HTMLParser
from io import StringIO

from rich.console import Console

from stoker.soak.bench.estimate import Estimate, estimate, exact
from stoker.soak.bench.figures import METRICS
from stoker.soak.bench.page import html
from stoker.soak.bench.report import Report, Table, metric_rows
from stoker.soak.bench.text import cell, markdown, show
from tests.soak.outcomes import outcome, seen


def column(ttft: float, spread: float) -> dict[str, Estimate | None]:
    sittings = [seen(outcome(first_token=ttft + shift)) for shift in (-spread, 0, spread)]
    return {metric.key: estimate(metric.of(each) for each in sittings) for metric in METRICS}


def report(*columns: dict[str, Estimate | None]) -> Report:
    names = tuple(f"server {number}" for number in range(len(columns)))
    table = Table("Side by side", names, metric_rows(columns, judged=True))
    return Report("Comparison", (("workload", "chat <b>"),), (table,), ("A note.",))


def best(made: Report, key: str) -> tuple[int, ...]:
    return next(row.best for row in made.tables[0].rows if row.key == key)


def test_the_better_one_is_marked_whichever_way_better_is() -> None:
    made = report(column(1.0, 0.01), column(2.0, 0.01))
    assert best(made, "ttft_p50") == (0,)
    assert best(made, "prefill") == (0,)


def test_what_the_repeats_do_not_decide_is_not_marked() -> None:
    assert best(report(column(1.0, 0.5), column(1.2, 0.5)), "ttft_p50") == ()


def test_what_was_measured_once_is_not_marked() -> None:
    once = {metric.key: estimate([metric.of(seen(outcome()))]) for metric in METRICS}
    assert best(report(once, column(9.0, 0.1)), "ttft_p50") == ()


def test_what_is_computed_is_marked() -> None:
    assert best(report({"ttft_p50": exact(1.0)}, {"ttft_p50": exact(2.0)}), "ttft_p50") == (0,)


def test_two_that_are_not_told_apart_share_the_mark() -> None:
    assert best(report(column(1.0, 0.1), column(1.05, 0.1), column(3.0, 0.1)), "ttft_p50") == (0, 1)


def test_every_metric_has_its_row_even_if_no_server_shows_it() -> None:
    made = report(column(1.0, 0.0))
    assert [row.key for row in made.tables[0].rows] == [metric.key for metric in METRICS]
    assert "| start | - |" in markdown(made)


def test_numbers_are_said_as_people_read_them() -> None:
    assert cell(Estimate(0.0123, 0.01, 0.02, 3), "s") == "12.3 ms (10.0 to 20.0 ms)"
    assert cell(Estimate(2.5e9, None, None, 1), "bytes") == "2.50 GB"
    assert cell(Estimate(0.5, 0.5, 0.5, 3), "share") == "50.0%"
    assert cell(None, "s") == "-"


def test_the_terminal_shows_every_row() -> None:
    console = Console(file=StringIO(), width=200)
    show(report(column(1.0, 0.0)), console)
    assert isinstance(console.file, StringIO)
    assert all(metric.title in console.file.getvalue() for metric in METRICS)


class Loads(HTMLParser):
    """What a page would fetch, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "link", "img", "iframe"}:
            self.fetched.append(tag)


def test_the_page_is_whole_by_itself_and_escapes_what_it_is_told() -> None:
    page = html(report(column(1.0, 0.01), column(2.0, 0.01)))
    loads = Loads()
    loads.feed(page)
    assert loads.fetched == []
    assert "chat &lt;b&gt;" in page
    assert page.count('class="best"') > 0

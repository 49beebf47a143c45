"""A report in a real browser: it needs no network, makes no noise, and is readable by day and by night."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from playwright.sync_api import Browser, sync_playwright

from stoker.soak.errors import NothingToReport
from stoker.soak.report.files import write
from stoker.soak.report.numbers import rows, rows_of
from stoker.soak.report.series import MOST_POINTS, points
from tests.soak.made import BEGAN, LENGTH_S, death, hours, kill, run_of

CHROMIUM = shutil.which("chromium")
CHARTS = 6
# WCAG 2.1: text of normal size.
LEAST_CONTRAST = 4.5
CONTRAST = """selector => {
  const light = color => {
    const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const part = color.match(/[\\d.]+/g).slice(0, 3).map(v => linear(v / 255));
    return .2126 * part[0] + .7152 * part[1] + .0722 * part[2];
  };
  const text = light(getComputedStyle(document.querySelector(selector)).color);
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return (Math.max(text, ground) + .05) / (Math.min(text, ground) + .05);
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two hours with a kill, an incident that nothing explains, and ten minutes away."""
    at = BEGAN + 20 * LENGTH_S + 5.0
    intervals = hours(2)
    intervals[20] = msgspec.structs.replace(
        intervals[20], deaths=1, acts=(kill(at),), incidents=(death(at), death(at + 9, "swap"))
    )
    del intervals[60:70]
    page, _ = write(tmp_path_factory.mktemp("reports"), run_of(intervals), intervals)
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here; `make observers` installs it")
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_shows_itself_without_a_network_and_without_errors(
    browser: Browser, report: Path, scheme: Literal["light", "dark"], tmp_path: Path
) -> None:
    context = browser.new_context(color_scheme=scheme, offline=True, viewport={"width": 1100, "height": 900})
    page, noise = context.new_page(), []
    page.on("console", lambda message: noise.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("request", lambda request: noise.append(request.url) if request.url.startswith("http") else None)
    page.goto(report.as_uri())
    page.wait_for_function(f"document.querySelectorAll('.main-svg').length >= {CHARTS}")
    assert page.locator(".plotly-graph-div").count() == CHARTS
    assert page.locator("span.verdict").inner_text() == "fail"
    for selector in ("body", ".lead", "span.verdict", "td b.pass", "th"):
        assert page.evaluate(CONTRAST, selector) >= LEAST_CONTRAST, (scheme, selector)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
    assert not noise
    context.close()


def test_a_chart_has_no_more_points_than_it_can_show() -> None:
    intervals = hours(30)
    found = points(intervals)
    assert MOST_POINTS / 2 < len(found) <= MOST_POINTS
    assert sum(point.requests_per_minute for point in found) / len(found) == pytest.approx(10.0)


def test_two_runs_stand_side_by_side() -> None:
    one, other = run_of(hours(1)), run_of(hours(1, cached_tokens=1500))
    table = {name: values for name, *values in rows([one, other])}
    assert table["cache hit rate"] == ["33.3%", "50.0%"]
    assert [name for name, _ in rows_of(one)] == list(table)


def test_a_run_whose_intervals_are_forgotten_says_so(tmp_path: Path) -> None:
    with pytest.raises(NothingToReport, match="only its verdict"):
        write(tmp_path, run_of(hours(1)), [])

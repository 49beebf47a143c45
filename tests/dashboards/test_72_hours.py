"""The panels of long ranges over 72 back-filled hours, against the same numbers computed without Prometheus."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from stoker.dashboards.boards.uptime import UPTIME
from stoker.dashboards.check import Prometheus
from stoker.service.metrics import AVAILABILITY_OBJECTIVE
from tests.dashboards.history import AWAY, DOWN, HOURS, INCIDENTS, MINUTES, STEP_S, Life, blocks, life
from tests.dashboards.prometheus_server import ask, ask_range, running_prometheus

pytestmark = [
    pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"),
    pytest.mark.timeout(120),
]
ALLOWED = 1 - AVAILABILITY_OBJECTIVE


@dataclass(frozen=True)
class Past:
    """A Prometheus that has the history, and the time of its last minute."""

    url: str
    ends: int

    def instant(self, panel: str) -> list[Any]:
        """What a panel of one number shows of all 72 hours."""
        return ask(self.url, self._expression(panel), self.ends)

    def at(self, panel: str, minutes: list[int], query: int = 0) -> list[float]:
        """What a panel's series is at those minutes."""
        expression = self._expression(panel, query)
        return [float(ask(self.url, expression, self.time(minute))[0]["value"][1]) for minute in minutes]

    def over_time(self, panel: str) -> list[Any]:
        """A panel's series at every minute."""
        return ask_range(self.url, self._expression(panel), self.time(0), self.ends, STEP_S)

    def time(self, minute: int) -> int:
        return self.ends - (MINUTES - 1 - minute) * STEP_S

    def _expression(self, title: str, query: int = 0) -> str:
        (panel,) = (panel for panel in UPTIME.panels if panel.title == title)
        return Prometheus(self.url, HOURS * 3600, 4 * STEP_S).filled_in(panel.queries[query].expr)


@pytest.fixture(scope="module")
def told() -> Life:
    return life()


@pytest.fixture(scope="module")
def past(told: Life, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    folder = tmp_path_factory.mktemp("prometheus")
    ends = int(time.time()) // STEP_S * STEP_S - STEP_S
    blocks(told, ends, folder / "data")
    (folder / "prometheus.yml").write_text("")
    with running_prometheus(folder) as url:
        yield Past(url, ends)


def value(series: list[Any]) -> float:
    (one,) = series
    return float(one["value"][1])


def by(label: str, series: list[Any]) -> dict[str, int]:
    return {each["metric"][label]: round(float(each["value"][1])) for each in series}


def test_uptime_is_the_share_of_time_in_which_a_canary_would_have_been_answered(past: Past, told: Life) -> None:
    assert value(past.instant("Uptime")) == pytest.approx(told.uptime(), abs=2e-4)


def test_the_success_ratio_counts_through_restarts_of_the_service(past: Past, told: Life) -> None:
    assert value(past.instant("Success ratio")) == pytest.approx(1 - told.failure_share(), abs=2e-5)


def test_the_error_budget_is_what_the_objective_leaves(past: Past, told: Life) -> None:
    assert value(past.instant("Error budget left")) == pytest.approx(1 - told.failure_share() / ALLOWED, abs=5e-3)


def test_the_burn_is_the_failure_share_over_what_is_allowed(past: Past, told: Life) -> None:
    minutes = [1530, 3930, 4230, 4260]
    for query, window in enumerate((60, 360)):
        burns = [told.failure_share(range(minute - window + 1, minute + 1)) / ALLOWED for minute in minutes]
        assert past.at("Error budget burn", minutes, query) == pytest.approx(burns, rel=0.03)


def test_every_death_and_incident_is_counted_once_by_its_reason(past: Past) -> None:
    assert by("reason", past.instant("Restarts by reason")) == Counter(reason for _, reason in DOWN.values())
    assert by("kind", past.instant("Incidents by kind")) == Counter(INCIDENTS.values())
    assert round(value(past.instant("Engine deaths"))) == len(DOWN)


def test_the_states_show_when_the_engine_was_not_ready_and_when_nobody_looked(past: Past, told: Life) -> None:
    (series,) = past.over_time("States")
    shown = {(round(at) - past.time(0)) // STEP_S: code for at, code in series["values"]}
    for minute in (0, 299, 300, 303, 304, 1500, 3905, MINUTES - 1):
        assert shown[minute] == ("2" if told.engine_up[minute] else "1"), minute
    assert AWAY[-1] not in shown

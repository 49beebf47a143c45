"""Soak runs of 72 hours, simulated, against numbers computed from what the pretended world wrote down by itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from stoker.soak.intervals import ENGINE_MLX
from stoker.soak.report.files import write
from stoker.soak.report.series import absences, states
from stoker.watchdog.soak_news import GateOutcome
from tests.simulation.soaking import BEGAN, HOUR_S, Soaked, World, soaked

AWAY_S = 1234.5


@pytest.fixture(scope="module")
def long_run() -> Soaked:
    """72 hours with a kill an hour; after 30 of them everything is killed, and goes on later."""
    return soaked(72.0, World(), ["kill:1h"], killed_at_h=30.0, away_s=AWAY_S)


def latencies(run: Soaked, disturbed: bool) -> list[float]:
    """TTFTs of requests that met a kill, or of the others, from the world's own book."""
    found = []
    for ended, outcome in run.world.outcomes:
        assert outcome.first_token is not None
        began = ended - (outcome.ended - outcome.intended)
        met = any(since <= ended and until + 5.0 >= began for since, until in run.world.kills)
        if met == disturbed:
            found.append(outcome.first_token - outcome.intended)
    return found


def test_it_passes_and_every_second_is_accounted_for(long_run: Soaked) -> None:
    result = long_run.run.result
    assert result is not None
    assert result.verdict.outcome is GateOutcome.PASS, result.verdict.reasons
    seconds = result.summary.seconds
    assert sum(seconds.values()) == pytest.approx(result.summary.until - BEGAN, abs=1e-3)
    # The interval under way when everything was killed is lost to the run: it is away since the one before.
    assert AWAY_S <= seconds["away"] <= AWAY_S + 60.0
    assert result.summary.load_s == pytest.approx(72 * HOUR_S, abs=1.0)
    (away,) = absences(BEGAN, long_run.intervals)
    assert away.seconds == pytest.approx(seconds["away"], abs=1e-3)
    spells = states(BEGAN, long_run.intervals)
    assert all(one.until == other.since for one, other in pairwise(spells))


def test_its_numbers_are_those_of_the_world(long_run: Soaked) -> None:
    assert long_run.run.result is not None
    summary, world = long_run.run.result.summary, long_run.world
    (away,) = absences(BEGAN, long_run.intervals)
    seen = [(ended, each) for ended, each in world.outcomes if not away.since < ended <= away.until]
    assert summary.requests == pytest.approx(len(seen), abs=3)
    assert summary.completion_tokens == pytest.approx(sum(each.completion_tokens or 0 for _, each in seen), rel=1e-3)
    cached, prompt = (sum(values) for values in zip(*((o.cached_tokens or 0, 300) for _, o in seen), strict=True))
    assert summary.cache_hit_share == pytest.approx(cached / prompt, abs=1e-3)
    calm = latencies(long_run, disturbed=False)
    assert summary.ttft is not None
    assert summary.ttft.p50 == pytest.approx(float(np.quantile(calm, 0.5)), rel=0.015)
    assert summary.ttft.p95 == pytest.approx(float(np.quantile(calm, 0.95)), rel=0.02)
    assert summary.ttft.p99 == pytest.approx(float(np.quantile(calm, 0.99)), rel=0.03)


def test_what_chaos_cost_is_what_it_did(long_run: Soaked) -> None:
    assert long_run.run.result is not None
    summary, kills = long_run.run.result.summary, long_run.world.kills
    assert 60 <= len(kills) <= 72
    assert summary.seconds["down"] == pytest.approx(sum(until - since for since, until in kills), abs=0.01)
    assert summary.excused_down_s == pytest.approx(summary.seconds["down"], abs=0.01)
    assert (summary.deaths, summary.unordered_deaths) == (len(kills), 0)
    assert len(summary.incidents) == len(kills) and not summary.unexplained
    assert summary.compared > 1000 and summary.shifted == 0


def test_its_report_has_everything(long_run: Soaked, tmp_path_factory: pytest.TempPathFactory) -> None:
    page, text = write(tmp_path_factory.mktemp("reports"), long_run.run, long_run.intervals)
    html, markdown = page.read_text(encoding="utf-8"), text.read_text(encoding="utf-8")
    for title in ("State of the tree", "Latency", "Throughput", "Memory by kind", "Prefix cache", "Incidents", "Away"):
        assert f"<h2>{title}</h2>" in html
    assert "<script src" not in html
    assert "| tokens | pass |" in markdown


def test_its_watchdog_heard_how_it_went(long_run: Soaked) -> None:
    news = long_run.world.news
    assert [each.active for each in news[-2:]] == [True, False]
    assert news[-1].verdict is GateOutcome.PASS


def test_a_leak_of_twenty_megabytes_an_hour_fails_for_that_and_nothing_else() -> None:
    done = soaked(12.0, World(leak_bytes_per_hour=20e6))
    assert done.run.result is not None
    (reason,) = done.run.result.verdict.reasons
    assert reason.startswith(f"memory ({ENGINE_MLX})")
    (found,) = [each for each in done.run.result.summary.growths if each.signal == ENGINE_MLX]
    assert found.slope == pytest.approx(20e6, rel=0.05)
    assert found.lower <= 20e6


def test_an_engine_that_gets_slower_fails_for_that_and_nothing_else() -> None:
    done = soaked(6.0, World(slow_after_s=4 * HOUR_S, slow_factor=2.0))
    assert done.run.result is not None
    reasons = done.run.result.verdict.reasons
    assert len(reasons) == 2 and all(" the p95 of " in f" {reason}" for reason in reasons)
    assert done.run.result.summary.ttft_drift.ratio == pytest.approx(2.0, rel=0.15)

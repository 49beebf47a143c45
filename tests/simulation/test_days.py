"""The short form of the simulation; `make simulate` is the long one."""

from __future__ import annotations

from tests.simulation.run import many

RUNS = 60
HOURS = 12.0


def test_days_of_faults_lose_alter_and_hold_up_nothing() -> None:
    reports, failures = many(range(RUNS), HOURS)
    assert not failures, failures[0]
    assert sum(report.finished for report in reports) > 1000
    assert sum(report.quarantined for report in reports) > 10
    assert sum(report.refused for report in reports) > 10
    assert sum(report.starts for report in reports) > 100

"""What the watchdog makes of soak runs: metrics, an incident, and the times of those to come."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from stoker.config import Config, Paths, Scheduled, Soak, Watchdog
from stoker.watchdog.incidents import SOAK
from stoker.watchdog.soak_news import GateOutcome, SoakNews
from stoker.watchdog.soak_schedule import SoakSchedule, arguments
from stoker.watchdog.soaks import Soaks
from stoker.watchdog.watching import Records
from tests.alerts.receivers import nobody

FAILED = SoakNews(
    "r1", False, GateOutcome.FAIL, "it leaks", {"memory": GateOutcome.FAIL, "load": GateOutcome.INCONCLUSIVE}
)
PASSED = SoakNews("r2", False, GateOutcome.PASS, "", {"memory": GateOutcome.PASS})


class Watched:
    def __init__(self, home: Path) -> None:
        self.registry = CollectorRegistry()
        self.records = Records(Watchdog(), Paths(home), self.registry, nobody)
        self.soaks = Soaks(Config(), Paths(home), self.records)

    def exported(self) -> list[str]:
        lines = generate_latest(self.registry).decode().splitlines()
        return [line for line in lines if line.startswith("stoker_soak")]

    def open(self) -> list[str]:
        return [incident.summary for incident in self.records.incidents.open if incident.kind == SOAK]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_a_run_that_failed_is_an_incident_until_one_passes(watched: Watched) -> None:
    watched.soaks.hear(FAILED)
    assert watched.open() == ["soak run r1 failed: it leaks"]
    watched.soaks.hear(SoakNews("r2", True, GateOutcome.FAIL, "it may yet", {}))
    watched.soaks.hear(SoakNews("r2", False, GateOutcome.INCONCLUSIVE, "too short", {}))
    assert len(watched.open()) == 1
    watched.soaks.hear(PASSED)
    assert watched.open() == []


async def test_a_gate_that_cannot_say_has_no_verdict(watched: Watched) -> None:
    assert watched.exported() == []
    watched.soaks.hear(FAILED)
    assert watched.exported() == [
        'stoker_soak_run_active{run="r1"} 0.0',
        'stoker_soak_verdict{gate="memory",run="r1"} 0.0',
    ]
    watched.soaks.hear(SoakNews("r2", True, GateOutcome.PASS, "", {"memory": GateOutcome.PASS}))
    assert watched.exported() == [
        'stoker_soak_run_active{run="r2"} 1.0',
        'stoker_soak_verdict{gate="memory",run="r2"} 1.0',
    ]


async def test_a_time_that_was_missed_while_everything_was_off_is_not_forgotten(tmp_path: Path) -> None:
    paths, nightly = Paths(tmp_path), Scheduled.model_validate({"cron": "0 2 * * *", "duration": "1h"})
    weekly = Scheduled.model_validate({"cron": "0 3 * * sat", "duration": "12h", "chaos": ["kill:1h"]})

    async def times(*schedule: Scheduled) -> dict[str, str]:
        planned = SoakSchedule(schedule, paths, paths.journal_url)
        async with planned:
            return planned.next_times()

    first = await times(nightly, weekly)
    assert len(first) == 2
    assert await times(nightly, weekly) == first
    assert len(await times(nightly)) == 1
    later = await times(Scheduled.model_validate({"cron": "30 2 * * *", "duration": "1h"}))
    assert len(later) == 1 and not set(later) & set(first)


def test_what_is_scheduled_is_what_the_command_is_told() -> None:
    told = {"cron": "0 2 * * *", "duration": "90m", "chaos": ["kill:1h", "stop:2x"], "even_when_busy": True}
    (scheduled,) = Soak.model_validate({"schedule": [told]}).schedule
    expected = "--scheduled --duration 5400s --workload mixed --scale 1.0 --chaos kill:1h --chaos stop:2x"
    assert " ".join(arguments(scheduled)) == f"{expected} --even-when-busy"


@pytest.mark.parametrize("wrong", [{"duration": "long"}, {"chaos": ["burn:1m"]}, {"scale": 0}])
def test_a_schedule_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="1 validation error"):
        Scheduled.model_validate({"cron": "0 2 * * *", "duration": "1h", **wrong})

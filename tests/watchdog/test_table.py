"""The past and the present as people read them."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import msgspec
from rich.console import Console

from stoker.watchdog.journal.records import IncidentTold
from stoker.watchdog.journal.uptime import Uptime
from stoker.watchdog.past import Past
from stoker.watchdog.shed_level import Shed
from stoker.watchdog.status import ServiceStatus, Status
from stoker.watchdog.supervisor import State
from stoker.watchdog.table import live_view, show_past
from tests.watchdog.journal.records import ACTION, DELIVERY, INCIDENT

CLOSED = msgspec.structs.replace(INCIDENT, closed_at=190.0)
WAITS = msgspec.structs.replace(DELIVERY, outcome=None, attempts=3)
UPTIME = Uptime(up_s=259_000.0, down_s=200.0)


def printed(show: object, *arguments: object) -> str:
    out = io.StringIO()
    show(*arguments, Console(file=out, width=200))  # type: ignore[operator]
    return out.getvalue()


def test_an_incident_is_told_with_what_was_done_and_how_long_it_lasted() -> None:
    assert printed(show_past, Past([IncidentTold(CLOSED, (ACTION,))], UPTIME), "72h").splitlines() == [
        "1970-01-01 00:01:40Z  leak, lasted 0:01:30: the engine leaks 20 MB/h",
        "  1970-01-01 00:01:50Z  it leaks: freed 3 MB",
        "uptime in 72h: 99.923% (down for 0:03:20)",
    ]


def test_who_was_told_of_an_incident_is_said() -> None:
    text = printed(show_past, Past([IncidentTold(CLOSED, (), (DELIVERY, WAITS))], UPTIME), "72h")
    assert "  1970-01-01 00:02:00Z  ops told `firing`: delivered, 2 tries" in text.splitlines()
    assert "told `firing`: under way, 3 tries, last HTTP status 500" in text


def test_what_is_open_says_so() -> None:
    text = printed(show_past, Past([IncidentTold(INCIDENT)], Uptime()), "1h")
    assert "leak, open: the engine leaks" in text
    assert "uptime in 1h: unknown" in text


def test_time_that_it_was_switched_off_is_told_apart() -> None:
    text = printed(show_past, Past([], Uptime(up_s=60.0, off_s=3600.0)), "2h")
    assert text.splitlines()[-1] == "uptime in 2h: 100.000% (down for 0:00:00, switched off for 1:00:00)"


def test_the_view_that_stays_shows_what_is_wrong_now() -> None:
    tree = Status(
        ready=True,
        version="1",
        home="/home",
        started_at=datetime(2026, 1, 2, tzinfo=UTC),
        engines=(),
        service=ServiceStatus(7, State.READY, "http://127.0.0.1:8000", 0, None, None),
        shed=Shed(1, "memory is short"),
    )
    past = Past([IncidentTold(CLOSED), IncidentTold(INCIDENT)], UPTIME)
    out = io.StringIO()
    Console(file=out, width=200).print(live_view(tree, past))
    text = out.getvalue()
    assert "shed level 1 of 3: memory is short" in text
    assert "2 incidents, 1 open" in text
    assert "leak: the engine leaks 20 MB/h" in text

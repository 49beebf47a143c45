"""One record of each kind, for tests."""

from __future__ import annotations

from pathlib import Path

from stoker.watchdog.journal.records import (
    ActionRecord,
    DeliveryRecord,
    Incarnation,
    Incident,
    Interval,
    Record,
    SampleRecord,
    SoakInterval,
    SoakRun,
    VerdictRecord,
)

INCIDENT = Incident("i1", "leak", 100.0, "the engine leaks 20 MB/h", {"slope_bytes_per_hour": 2e7})
ACTION = ActionRecord("a1", 110.0, "reclaim", "it leaks", incident="i1", ended_at=111.0, outcome="freed 3 MB")
DELIVERY = DeliveryRecord("d1", "i1", "ops", "firing", 120.0, 2, "delivered", 130.0, "HTTP status 500", "{}")
EACH: list[Record] = [
    Incarnation("engine-default", 1.0, 3, 4711, 2.0, 9.0, "killed", "killed by SIGKILL", -9),
    Interval("tree", 1.0, 5.0, "up"),
    SampleRecord(7.5, '{"at":1.0,"wall":7.5}'),
    VerdictRecord(8.0, "leak", "firing", "it leaks", {"window_s": 3600.0}),
    ACTION,
    INCIDENT,
    DELIVERY,
    SoakRun("r1", 1.0, "ended", "{}", 9.0, "pass", "{}"),
    SoakInterval("r1", 0, 1.0, 5.0, "{}"),
]


def url_of(file: Path) -> str:
    return f"sqlite+aiosqlite:///{file}"

"""The journal's tables: one for each kind of record, a column for each of its fields."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Double, Integer, MetaData, String, Table, Text

from .records import (
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

metadata = MetaData()

incarnations = Table(
    "incarnations",
    metadata,
    Column("child", String(64), primary_key=True),
    Column("started_at", Double, primary_key=True),
    Column("epoch", Integer),
    Column("pid", Integer),
    Column("ready_at", Double),
    Column("ended_at", Double),
    Column("cause", String(32)),
    Column("reason", Text),
    Column("exit_code", Integer),
)

intervals = Table(
    "intervals",
    metadata,
    Column("child", String(64), primary_key=True),
    Column("since", Double, primary_key=True),
    Column("until", Double, nullable=False, index=True),
    Column("state", String(32), nullable=False),
)

samples = Table(
    "samples",
    metadata,
    Column("at", Double, primary_key=True),
    Column("line", Text, nullable=False),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("at", Double, primary_key=True),
    Column("detector", String(64), primary_key=True),
    Column("level", String(16), nullable=False),
    Column("sentence", Text, nullable=False),
    Column("evidence", JSON, nullable=False),
)

actions = Table(
    "actions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("at", Double, nullable=False, index=True),
    Column("kind", String(32), nullable=False),
    Column("why", Text, nullable=False),
    Column("incident", String(32), index=True),
    Column("ended_at", Double),
    Column("outcome", Text),
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("opened_at", Double, nullable=False, index=True),
    Column("summary", Text, nullable=False),
    Column("evidence", JSON, nullable=False),
    Column("closed_at", Double),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", String(160), primary_key=True),
    Column("incident", String(32), nullable=False, index=True),
    Column("target", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("at", Double, nullable=False, index=True),
    Column("attempts", Integer, nullable=False),
    Column("outcome", String(16)),
    Column("ended_at", Double),
    Column("error", Text),
    Column("line", Text, nullable=False),
)

soak_runs = Table(
    "soak_runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("began_at", Double, nullable=False),
    Column("state", String(16), nullable=False),
    Column("plan", Text, nullable=False),
    Column("ended_at", Double),
    Column("verdict", String(16)),
    Column("result", Text),
)

soak_intervals = Table(
    "soak_intervals",
    metadata,
    Column("run", String(32), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("since", Double, nullable=False),
    Column("until", Double, nullable=False, index=True),
    Column("line", Text, nullable=False),
)

TABLES: dict[type[Record], Table] = {
    Incarnation: incarnations,
    Interval: intervals,
    SampleRecord: samples,
    VerdictRecord: verdicts,
    ActionRecord: actions,
    Incident: incidents,
    DeliveryRecord: deliveries,
    SoakRun: soak_runs,
    SoakInterval: soak_intervals,
}

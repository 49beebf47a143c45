"""What the journal keeps, as frozen structs; two records with the same key are one, and the later one counts.

Times are seconds since 1970, from the wall clock: they must mean something to the next process and to people.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Record(msgspec.Struct, frozen=True):
    """Base of everything that is kept."""

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others of its kind."""
        raise NotImplementedError


class Incarnation(Record, frozen=True):
    """One process that played a child. `epoch` is an engine's; a child that could not be spawned has no `pid`."""

    child: str
    started_at: float
    epoch: int | None = None
    pid: int | None = None
    ready_at: float | None = None
    ended_at: float | None = None
    cause: str | None = None
    reason: str | None = None
    exit_code: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        return self.child, self.started_at


class Interval(Record, frozen=True):
    """A time that a child spent in one state. `until` is the last moment at which it is known to have lasted.

    The child `tree` is up while every other is ready, and off from the moment that somebody stopped it.
    """

    child: str
    since: float
    until: float
    state: str

    @property
    def key(self) -> tuple[object, ...]:
        return self.child, self.since


class SampleRecord(Record, frozen=True):
    """One reading of everything, as a line of JSON (docs/samples.md)."""

    at: float
    line: str

    @property
    def key(self) -> tuple[object, ...]:
        return (self.at,)


class VerdictRecord(Record, frozen=True):
    """A detector's level changed."""

    at: float
    detector: str
    level: str
    sentence: str
    evidence: dict[str, Any]

    @property
    def key(self) -> tuple[object, ...]:
        return self.at, self.detector


class ActionRecord(Record, frozen=True):
    """Something that was done, why, and what came of it (None: not over yet)."""

    id: str
    at: float
    kind: str
    why: str
    incident: str | None = None
    ended_at: float | None = None
    outcome: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        return (self.id,)


class Incident(Record, frozen=True):
    """Something went wrong, from its first sign to its end."""

    id: str
    kind: str
    opened_at: float
    summary: str
    evidence: dict[str, Any]
    closed_at: float | None = None

    @property
    def key(self) -> tuple[object, ...]:
        return (self.id,)


class DeliveryRecord(Record, frozen=True):
    """One end of an incident on its way to one webhook's target; `outcome` is None while it is not over."""

    id: str
    incident: str
    target: str
    status: str
    """Which end: `firing` or `resolved`."""
    at: float
    attempts: int
    outcome: str | None = None
    ended_at: float | None = None
    error: str | None = None
    line: str = ""
    """All of it as the outbox writes it, to go on from."""

    @property
    def key(self) -> tuple[object, ...]:
        return (self.id,)


class SoakRun(Record, frozen=True):
    """A soak run: what it is to be, and once it is over what it came to. Its runner alone writes it.

    `state` is `running` until it is `ended` by its time, `stopped` by a person or `left_out` because it never began.
    """

    id: str
    began_at: float
    state: str
    plan: str
    """JSON; of the plan, as of the result, only the runner knows the words."""
    ended_at: float | None = None
    verdict: str | None = None
    result: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        return (self.id,)


class SoakInterval(Record, frozen=True):
    """What one interval of a soak run came to, as a line of JSON."""

    run: str
    number: int
    since: float
    until: float
    line: str

    @property
    def key(self) -> tuple[object, ...]:
        return self.run, self.number


class IncidentTold(msgspec.Struct, frozen=True):
    """An incident with what was done about it and who was told, oldest first."""

    incident: Incident
    actions: tuple[ActionRecord, ...] = ()
    deliveries: tuple[DeliveryRecord, ...] = ()

    @property
    def duration_s(self) -> float | None:
        """None while it is open."""
        closed_at = self.incident.closed_at
        return None if closed_at is None else max(0.0, closed_at - self.incident.opened_at)

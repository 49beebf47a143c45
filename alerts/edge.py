"""What is told: that something went wrong, or that it is over."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .severity import Severity, severity_of


class Status(StrEnum):
    """Alertmanager's words."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Edge(msgspec.Struct, frozen=True):
    """One end of an incident. Times are seconds since 1970."""

    incident: str
    kind: str
    status: Status
    opened_at: float
    at: float
    """Of this end."""
    summary: str
    test: bool = False
    """Sent by a person who wants to see it arrive."""

    @property
    def severity(self) -> Severity:
        return severity_of(self.kind)

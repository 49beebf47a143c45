"""What a rule is in this house, before any YAML: what the user feels, how bad it is, and where to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .runbooks import runbook_url
from .severity import Severity

GRAFANA = "http://127.0.0.1:3000/d"
"""Where the boards are found by their ids."""


@dataclass(frozen=True)
class Recording:
    """A series that other rules are made of, named `level:metric:operation`."""

    name: str
    expr: str

    def as_yaml(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {"record": self.name, "expr": self.expr}


@dataclass(frozen=True)
class Alert:
    """Something to tell a person. `summary` is what users feel, `description` what to do about it."""

    name: str
    severity: Severity
    expr: str
    summary: str
    description: str
    board: str
    lasting: str = "0s"
    """For how long it must be so; what Prometheus calls `for`."""
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_yaml(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasting,
            "labels": {"severity": self.severity.value, **self.labels},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": runbook_url(self.name),
                "dashboard_url": f"{GRAFANA}/{self.board}",
            },
        }


@dataclass(frozen=True)
class Group:
    """Rules that are judged one after the other."""

    name: str
    rules: tuple[Recording | Alert, ...]

    def as_yaml(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {"name": self.name, "rules": [rule.as_yaml() for rule in self.rules]}

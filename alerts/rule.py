"""What a rule is in this house, before any YAML: what the user feels, how bad it is, and where to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .runbooks import runbook_url
from .severity import Severity

DOWN = "StokerDown"
"""While the watchdog is away there is one thing to say."""
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
    lingering: str = ""
    """For how long it goes on after it is no longer so; what Prometheus calls `keep_firing_for`."""
    causes: tuple[str, ...] = (DOWN,)
    """Alerts that take this one over: while one of them fires, this one does not."""
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_yaml(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self._expr_without_cause(),
            "for": self.lasting,
            **({"keep_firing_for": self.lingering} if self.lingering else {}),
            "labels": {"severity": self.severity.value, **self.labels},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": runbook_url(self.name),
                "dashboard_url": f"{GRAFANA}/{self.board}",
            },
        }

    def _expr_without_cause(self) -> str:
        if not self.causes:
            return self.expr
        return f'({self.expr}) unless on () ALERTS{{alertstate="firing",alertname=~"{"|".join(self.causes)}"}}'


@dataclass(frozen=True)
class Group:
    """Rules that are judged one after the other."""

    name: str
    rules: tuple[Recording | Alert, ...]

    def as_yaml(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {"name": self.name, "rules": [rule.as_yaml() for rule in self.rules]}

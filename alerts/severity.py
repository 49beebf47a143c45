"""How bad each kind of incident is, what an alert about it is called, and which runbook helps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """`critical` should wake somebody, `warning` wants a look today, `info` can wait for the weekend."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Meaning:
    """What an incident of a kind means to who is told. `alert` is the name of the rule and runbook for the same."""

    alert: str
    severity: Severity


_CRITICAL, _WARNING, _INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
MEANINGS = {
    "engine_death": Meaning("StokerEngineDown", _WARNING),
    "service_death": Meaning("StokerServiceDown", _WARNING),
    "crashes": Meaning("StokerRestartLoop", _CRITICAL),
    "stall": Meaning("StokerStalled", _WARNING),
    "canary": Meaning("StokerCanaryFailing", _CRITICAL),
    "errors": Meaning("StokerErrorBudgetBurn", _CRITICAL),
    "pressure": Meaning("StokerSheddingForLong", _WARNING),
    "leak": Meaning("StokerLeak", _WARNING),
    "fragmentation": Meaning("StokerFragmentation", _INFO),
    "swap": Meaning("StokerSwapGrowing", _WARNING),
    "thermal": Meaning("StokerThrottled", _WARNING),
    "slowdown": Meaning("StokerThrottled", _WARNING),
    "resources": Meaning("StokerLeak", _INFO),
    "descriptors": Meaning("StokerLeak", _WARNING),
    "disk": Meaning("StokerDiskFull", _WARNING),
    "journal": Meaning("StokerDiskFull", _WARNING),
    "soak": Meaning("StokerSoakFailed", _WARNING),
}
UNKNOWN = Meaning("StokerIncident", _WARNING)
"""A kind that nobody has given a meaning is told all the same."""


def meaning_of(kind: str) -> Meaning:
    """What a kind of incident means."""
    return MEANINGS.get(kind, UNKNOWN)


def severity_of(kind: str) -> Severity:
    """How bad a kind of incident is."""
    return meaning_of(kind).severity

"""An edge as Alertmanager would send it: version 4 of its webhooks, so that receivers work with either sender.

The shape: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .edge import Edge, Status
from .runbooks import runbook_url
from .severity import meaning_of

RECEIVER = "stoker"
NOT_OVER = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class Origin:
    """Which endpoint it is about: `instance` names it, `url` is its watchdog, where more can be read."""

    instance: str
    url: str


def body(edge: Edge, origin: Origin) -> dict[str, Any]:
    """The whole body."""
    labels, annotations = labels_of(edge, origin), annotations_of(edge, origin)
    alert = {
        "status": edge.status.value,
        "labels": labels,
        "annotations": annotations,
        "startsAt": timestamp(edge.opened_at),
        "endsAt": timestamp(edge.at) if edge.status is Status.RESOLVED else NOT_OVER,
        "generatorURL": f"{origin.url}/incidents?since_s=259200",
        "fingerprint": fingerprint(labels),
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{labels["alertname"]}", incident="{edge.incident}"}}',
        "truncatedAlerts": 0,
        "status": edge.status.value,
        "receiver": RECEIVER,
        "groupLabels": {"alertname": labels["alertname"], "incident": edge.incident},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": origin.url,
        "alerts": [alert],
    }


def labels_of(edge: Edge, origin: Origin) -> dict[str, str]:
    """What an alert is recognized by."""
    labels = {
        "alertname": meaning_of(edge.kind).alert,
        "severity": edge.severity.value,
        "kind": edge.kind,
        "instance": origin.instance,
    }
    return {**labels, "test": "true"} if edge.test else labels


def annotations_of(edge: Edge, origin: Origin) -> dict[str, str]:
    """What people read."""
    return {"summary": edge.summary, "runbook_url": runbook_url(meaning_of(edge.kind).alert, origin.url)}


def fingerprint(labels: dict[str, str]) -> str:
    """Sixteen hexadecimal digits, the same for the same labels."""
    text = "\xff".join(f"{name}\xfe{value}" for name, value in sorted(labels.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def timestamp(at: float) -> str:
    """RFC 3339, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"

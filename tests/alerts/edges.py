"""Edges for tests."""

from __future__ import annotations

import msgspec

from stoker.alerts.edge import Edge, Status

BEGAN = Edge("i1", "leak", Status.FIRING, opened_at=100.0, at=100.0, summary="the engine leaks 20 MB/h")
OVER = msgspec.structs.replace(BEGAN, status=Status.RESOLVED, at=160.0)


def edge(incident: str, status: Status, at: float, kind: str = "leak") -> Edge:
    """One end of an incident that began at `at`, or before it."""
    return Edge(incident, kind, status, at, at, f"{incident} is {status.value}")

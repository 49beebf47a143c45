"""When the last death of a child is still worth a warning, and what is said of it (pure)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..status import LastRestart

RECENT = timedelta(hours=24)
FORGOTTEN = "this is said for a day"
"""Ends a remedy: what happened cannot be undone, so the finding goes with time."""


def recent(last: LastRestart) -> bool:
    """Whether it is a matter of today."""
    return datetime.now(UTC) - last.at <= RECENT


def told(restarts: int, last: LastRestart) -> str:
    """How often, when last, and why."""
    minutes = round((datetime.now(UTC) - last.at).total_seconds() / 60)
    ago = f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
    return f"{restarts} restarts, the last {ago} ago: {last.reason}"

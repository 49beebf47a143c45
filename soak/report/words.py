"""What reports say of moments and names. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from ..keeping import Run


def moment(at: float) -> str:
    """For a person, in this machine's time zone."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def title(run: Run) -> str:
    """Of a report."""
    state = "" if run.state == "ended" else f" ({run.state.replace('_', ' ')})"
    return f"Soak run {run.id}{state}"

"""What the system's own commands say."""

from __future__ import annotations

import subprocess

DEADLINE_S = 5.0


def said(*command: str) -> str | None:
    """The standard output of a command; None where there is no such command, or no answer in time."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None

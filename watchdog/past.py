"""What the watchdog tells of the past: the words of `/incidents`, for both ends of it."""

from __future__ import annotations

import msgspec

from .journal.records import IncidentTold
from .journal.uptime import Uptime


class Past(msgspec.Struct, frozen=True):
    """Incidents, oldest first, and how long the tree was up."""

    incidents: list[IncidentTold]
    uptime: Uptime

"""What the watchdog tells of what it saw: the words of `/incidents`, `/uptime` and `/look`, for both ends of them."""

from __future__ import annotations

import msgspec

from .journal.records import IncidentTold
from .journal.uptime import Uptime
from .samples import Sample
from .verdicts import Verdict


class Past(msgspec.Struct, frozen=True):
    """Incidents, oldest first, and how long the tree was up."""

    incidents: list[IncidentTold]
    uptime: Uptime


class Look(msgspec.Struct, frozen=True):
    """The last look at everything, and what each detector says of it."""

    sample: Sample
    verdicts: tuple[Verdict, ...]

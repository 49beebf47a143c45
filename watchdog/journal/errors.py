"""What can be wrong with the journal's database, one class a cause; each message is one sentence."""

from __future__ import annotations

from ..errors import WatchdogError


class JournalUnavailable(WatchdogError):
    """The database cannot be used now: locked, full, gone. Later it may."""


class JournalDamaged(WatchdogError):
    """The database's file is no database any more; time will not mend it."""

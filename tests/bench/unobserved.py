"""`python tests/bench/unobserved.py SETTINGS.json`: the service with nothing measured or traced, to compare with."""

from __future__ import annotations

import sys

from stoker.engine.protocol import Heartbeat, Timings
from stoker.service import app, middleware
from stoker.service.__main__ import main
from stoker.service.engine_totals import EngineTotals
from stoker.service.entry import Entry
from stoker.service.metrics import Metrics
from stoker.service.observer import Resume


class Silent:
    """Hears everything and says nothing."""

    def __init__(self, to: Metrics) -> None:
        self.engines = EngineTotals()

    def first_tokens(self, entry: Entry, count: int, since_arrival_s: float) -> None: ...

    def more_tokens(self, entry: Entry, count: int, since_last_s: float) -> None: ...

    def timed(self, entry: Entry, timings: Timings) -> None: ...

    def ended(self, entry: Entry, duration_s: float) -> None: ...

    def cancelled(self) -> None: ...

    def resumed(self, entry: Entry, outcome: Resume, gap_s: float) -> None: ...

    def heartbeat(self, heartbeat: Heartbeat) -> None: ...


if __name__ == "__main__":
    vars(app)["LedgerReadings"] = Silent
    # No path is traced; there are no keys to guard either.
    middleware.GUARDED_PATHS = "/none/"
    sys.exit(main(sys.argv[1:]))

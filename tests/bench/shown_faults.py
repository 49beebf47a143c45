"""Faults as `/metrics` shows them: an exporter that is well until it is told to fall sick."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from aiohttp import web
from aiohttp.test_utils import TestServer

Fault = Mapping[str, tuple[float, float]]
"""Series: their values while all is well, and while it is not; counters grow by that each second. None: no answer."""
Round = Mapping[str, Fault]
"""Faults by alert, none of which is another's cause."""
_COUNTER = re.compile(r"\w+_(total|count|bucket)\b")


def _detector(name: str) -> Fault:
    return {f'stoker_detector_firing{{detector="{name}"}}': (0, 1)}


def _one(counter: str, labels: str) -> Fault:
    return {f"{counter}_total{{{labels}}}": (0, 1)}


ROUNDS: tuple[Round, ...] = (
    {
        "StokerEngineDown": {"stoker_engine_up": (1, 0)},
        "StokerServiceDown": {"stoker_service_up": (1, 0)},
        "StokerStalled": _one("stoker_engine_restarts", 'reason="stalled"'),
        "StokerCanaryWrong": _one("stoker_canary_requests", 'outcome="wrong"'),
        "StokerLeak": {**_detector("leak"), "stoker_memory_exhaustion_seconds": (9e9, 7200)},
        "StokerFragmentation": _detector("fragmentation"),
        "StokerSwapGrowing": _detector("swap"),
        "StokerDiskFull": _detector("disk"),
        "StokerThrottled": {**_detector("thermal"), "stoker_decode_slowdown_ratio": (1, 1.6)},
        "StokerSpansDropped": _one("stoker_spans_dropped", ""),
        "StokerWebhooksDropped": _one("stoker_webhook_deliveries", 'outcome="dropped"'),
        "StokerSoakFailed": _one("stoker_incidents", 'kind="soak"'),
    },
    {
        "StokerCanaryFailing": {"stoker_canary_ok": (1, 0)},
        "StokerQueueSaturated": _one("stoker_requests_shed", 'reason="queue_full"'),
    },
    {
        "StokerErrorBudgetBurn": _one("stoker_requests", 'endpoint="/v1/messages",code="500"'),
        "StokerSlowFirstToken": {
            "stoker_time_to_first_token_seconds_count": (0, 1),
            'stoker_time_to_first_token_seconds_bucket{le="10.0"}': (0, 0),
        },
    },
    {"StokerSheddingForLong": {"stoker_shed_level": (0, 1)}},
    {"StokerRestartLoop": _one("stoker_engine_restarts", 'reason="killed"')},
    {"StokerDown": {}},
)


@dataclass
class Exporter:
    """Shows every fault of a round at once."""

    faults: Round
    targets: list[tuple[str, str]]
    """The job of whoever shows all this, and its `host:port`."""
    sick_since: float | None = None

    def fall_sick(self) -> None:
        self.sick_since = time.monotonic()

    def text(self) -> str:
        """In Prometheus' text format."""
        series = (each for fault in self.faults.values() for each in fault.items())
        return "".join(f"{name} {self._value(name, *values)}\n" for name, values in series)

    def _value(self, name: str, well: float, sick: float) -> float:
        if self.sick_since is None:
            return well
        return sick * (time.monotonic() - self.sick_since if _COUNTER.match(name) else 1)

    async def answer(self, request: web.Request) -> web.Response:
        if self.sick_since is not None and not all(self.faults.values()):
            return web.Response(status=503)
        return web.Response(text=self.text())


@contextlib.asynccontextmanager
async def showing(faults: Round) -> AsyncIterator[Exporter]:
    """An exporter for as long as the block runs."""
    exporter = Exporter(faults, [])
    app = web.Application()
    app.router.add_get("/metrics", exporter.answer)
    async with TestServer(app) as server:
        exporter.targets.append(("stoker-watchdog", f"{server.host}:{server.port}"))
        yield exporter

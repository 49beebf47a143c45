"""Faults as `/metrics` shows them: an exporter that is well until it is told to fall sick."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from aiohttp import web
from aiohttp.test_utils import TestServer

Fault = Mapping[str, tuple[float, ...]]
"""Series: their values at each stage, the last of which is the fault. None: no answer."""
Round = Mapping[str, Fault]
"""Faults by alert, none of which is another's cause."""


def _detector(name: str) -> Fault:
    return {f'stoker_detector_firing{{detector="{name}"}}': (0, 1)}


def _counted(counter: str, labels: str, count: float = 1) -> Fault:
    return {f"{counter}_total{{{labels}}}": (0, count)}


STANDING_S = {"StokerSheddingForLong": 300.0}
"""For how long that must have stood of which an alert says that it has stood for long."""
STAGE_S = 330.0
"""After a stage before the last: what came before is out of every window of five minutes then."""

ROUNDS: tuple[Round, ...] = (
    {
        "StokerEngineDown": {"stoker_engine_up": (1, 0)},
        "StokerServiceDown": {"stoker_service_up": (1, 0)},
        "StokerStalled": _counted("stoker_engine_restarts", 'reason="stalled"'),
        "StokerCanaryWrong": _counted("stoker_canary_requests", 'outcome="wrong"'),
        "StokerLeak": {**_detector("leak"), "stoker_memory_exhaustion_seconds": (9e9, 7200)},
        "StokerFragmentation": _detector("fragmentation"),
        "StokerSwapGrowing": _detector("swap"),
        "StokerDiskFull": _detector("disk"),
        "StokerThrottled": {**_detector("thermal"), "stoker_decode_slowdown_ratio": (1, 1.6)},
        "StokerSpansDropped": _counted("stoker_spans_dropped", ""),
        "StokerWebhooksDropped": _counted("stoker_webhook_deliveries", 'outcome="dropped"'),
        "StokerSoakFailed": _counted("stoker_incidents", 'kind="soak"'),
    },
    {
        "StokerCanaryFailing": {"stoker_canary_ok": (1, 0)},
        "StokerQueueSaturated": _counted("stoker_requests_shed", 'reason="queue_full"', 6),
    },
    {
        "StokerErrorBudgetBurn": _counted("stoker_requests", 'endpoint="/v1/messages",code="500"', 100),
        "StokerSlowFirstToken": {
            "stoker_time_to_first_token_seconds_count": (0, 100),
            'stoker_time_to_first_token_seconds_bucket{le="10.0"}': (0, 0),
        },
    },
    {"StokerSheddingForLong": {"stoker_shed_level": (0, 1)}},
    {
        "StokerPrefixHitCollapse": {
            'stoker_prefix_cache_tokens_total{outcome="hit",tier="ram"}': (0, 90_000, 90_000),
            'stoker_prefix_cache_tokens_total{outcome="miss",tier=""}': (0, 10_000, 70_000),
            'stoker_prefix_cache_misses_total{reason="diverged"}': (0, 0, 6),
        }
    },
    {"StokerRestartLoop": _counted("stoker_engine_restarts", 'reason="killed"', 4)},
    {"StokerDown": {}},
)


@dataclass
class Exporter:
    """Shows every fault of a round at once."""

    faults: Round
    targets: list[tuple[str, str]]
    """The job of whoever shows all this, and its `host:port`."""
    stage: int = 0

    @property
    def last_stage(self) -> int:
        return max((len(values) - 1 for fault in self.faults.values() for values in fault.values()), default=1)

    def text(self) -> str:
        """In Prometheus' text format."""
        series = (each for fault in self.faults.values() for each in fault.items())
        return "".join(f"{name} {values[self.stage]}\n" for name, values in series)

    async def answer(self, request: web.Request) -> web.Response:
        if self.stage == self.last_stage and not all(self.faults.values()):
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

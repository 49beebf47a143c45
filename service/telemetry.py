"""Where the metrics' values come from: what the ledger reports, and what is read at the moment of a scrape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..engine.protocol import Heartbeat, Timings
from . import metrics
from .ledger import Ledger
from .metrics import Metrics
from .observer import Resume


class LedgerTelemetry:
    """Turns the ledger's reports into observations."""

    def __init__(self, to: Metrics) -> None:
        self._metrics = to

    def first_tokens(self, count: int, since_arrival_s: float) -> None:
        self._metrics.generated_tokens.inc(count)
        self._metrics.time_to_first_token.observe(since_arrival_s)

    def more_tokens(self, count: int, since_last_s: float) -> None:
        self._metrics.generated_tokens.inc(count)
        self._metrics.inter_token_latency.observe(since_last_s)

    def timed(self, timings: Timings, cached_tokens: int) -> None:
        self._metrics.queue.observe(timings.queue_s)
        self._metrics.prefill.observe(timings.prefill_s)
        self._metrics.decode.observe(timings.decode_s)
        self._metrics.prompt_tokens.labels("computed").inc(timings.computed_tokens)
        # The engine has one tier of cache, and that is memory.
        self._metrics.prompt_tokens.labels("ram").inc(cached_tokens)

    def ended(self, duration_s: float, per_token_s: float | None) -> None:
        self._metrics.request_duration.observe(duration_s)
        if per_token_s is not None:
            self._metrics.time_per_output_token.observe(per_token_s)

    def cancelled(self) -> None:
        self._metrics.requests_cancelled.inc()

    def resumed(self, outcome: Resume, gap_s: float) -> None:
        self._metrics.request_resumes.labels(outcome.value).inc()
        if outcome is Resume.RESUMED:
            self._metrics.resume_gap.observe(gap_s)


class LiveCollector(Collector):
    """Readings taken when asked for: the ledger's state, and the engine's last heartbeat while there is one."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        snapshot = self._ledger.snapshot()
        yield GaugeMetricFamily(metrics.REQUESTS_RUNNING, "Requests being computed", value=snapshot.running)
        yield GaugeMetricFamily(
            metrics.REQUESTS_WAITING,
            "Requests that wait for the engine",
            value=snapshot.waiting + snapshot.queued + snapshot.suspended,
        )
        if snapshot.heartbeat is not None and snapshot.heartbeat_at is not None:
            yield from _engine_readings(snapshot.heartbeat, self._clock() - snapshot.heartbeat_at)


def _engine_readings(heartbeat: Heartbeat, age_s: float) -> Iterator[Metric]:
    yield CounterMetricFamily(metrics.ENGINE_STEPS, "Steps of the running engine", value=heartbeat.steps)
    yield GaugeMetricFamily(metrics.ENGINE_BATCH_SIZE, "Rows in the engine's batch", value=heartbeat.running)
    if heartbeat.last_step_age is not None:
        yield GaugeMetricFamily(
            metrics.ENGINE_LAST_STEP_AGE, "Age of the engine's last step", value=heartbeat.last_step_age + age_s
        )
    memory = GaugeMetricFamily(metrics.ENGINE_MEMORY, "The engine's memory by kind", labels=["kind"])
    for kind, value in msgspec.structs.asdict(heartbeat.memory).items():
        if value is not None:
            memory.add_metric([kind], value)
    yield memory

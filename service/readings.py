"""Where the metrics' values come from: what the ledger reports, and what is read at the moment of a scrape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import msgspec
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ..engine.protocol import Heartbeat, Timings
from . import metrics
from .engine_totals import EngineTotals
from .entry import Entry
from .export import Export
from .ledger import Ledger
from .metrics import Metrics, Reading
from .observer import Resume


class LedgerReadings:
    """Turns the ledger's reports into observations; those of latencies carry the id of a trace that is kept."""

    def __init__(self, to: Metrics) -> None:
        self._metrics = to
        self.engines = EngineTotals()

    def first_tokens(self, entry: Entry, count: int, since_arrival_s: float) -> None:
        self._metrics.generated_tokens.inc(count)
        self._metrics.time_to_first_token.observe(since_arrival_s, entry.trail.exemplar)

    def more_tokens(self, entry: Entry, count: int, since_last_s: float) -> None:
        self._metrics.generated_tokens.inc(count)
        self._metrics.inter_token_latency.observe(since_last_s, entry.trail.exemplar)

    def timed(self, entry: Entry, timings: Timings) -> None:
        exemplar, prefix = entry.trail.exemplar, entry.prefix
        self._metrics.queue.observe(timings.queue_s, exemplar)
        self._metrics.prefill.observe(timings.prefill_s, exemplar)
        self._metrics.decode.observe(timings.decode_s, exemplar)
        for source, count in (
            ("computed", timings.computed_tokens),
            ("ram", prefix.cached - prefix.from_disk),
            ("disk", prefix.from_disk),
        ):
            self._metrics.prompt_tokens.labels(source).inc(count)

    def ended(self, entry: Entry, duration_s: float) -> None:
        exemplar, per_token_s = entry.trail.exemplar, entry.time_per_output_token()
        self._metrics.request_duration.observe(duration_s, exemplar)
        if per_token_s is not None:
            self._metrics.time_per_output_token.observe(per_token_s, exemplar)

    def cancelled(self) -> None:
        self._metrics.requests_cancelled.inc()

    def resumed(self, entry: Entry, outcome: Resume, gap_s: float) -> None:
        self._metrics.request_resumes.labels(outcome.value).inc()
        if outcome is Resume.RESUMED:
            self._metrics.resume_gap.observe(gap_s, entry.trail.exemplar)

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        self.engines.observe(heartbeat)


class LiveCollector(Collector):
    """Readings taken when asked for: the ledger's state, all engines' counts, the engine's last heartbeat if any."""

    def __init__(
        self,
        ledger: Ledger,
        engines: EngineTotals,
        export: Export | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._engines = engines
        self._export = export
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Every family, so that the registry knows the names before there are values."""
        return (reading.family() for reading in metrics.READINGS)

    def collect(self) -> Iterator[Metric]:
        snapshot = self._ledger.snapshot()
        waiting = snapshot.waiting + snapshot.queued + snapshot.suspended
        yield _family(metrics.REQUESTS_RUNNING, {(): snapshot.running})
        yield _family(metrics.REQUESTS_WAITING, {(): waiting})
        yield _family(metrics.SPANS_DROPPED, {(): 0 if self._export is None else self._export.dropped})
        for reading, values in self._engines.totals().items():
            yield _family(reading, values)
        if snapshot.heartbeat is not None and snapshot.heartbeat_at is not None:
            yield from _engine_readings(snapshot.heartbeat, self._clock() - snapshot.heartbeat_at)


def _engine_readings(heartbeat: Heartbeat, age_s: float) -> Iterator[Metric]:
    yield _family(metrics.ENGINE_BATCH_SIZE, {(): heartbeat.running})
    if heartbeat.last_step_age is not None:
        yield _family(metrics.ENGINE_LAST_STEP_AGE, {(): heartbeat.last_step_age + age_s})
    memory = msgspec.structs.asdict(heartbeat.memory)
    yield _family(metrics.ENGINE_MEMORY, {(kind,): value for kind, value in memory.items() if value is not None})
    tiers = heartbeat.prefix_cache.nbytes
    yield _family(metrics.PREFIX_CACHE_BYTES, {(tier.value,): nbytes for tier, nbytes in tiers.items()})


def _family(reading: Reading, values: Mapping[tuple[str, ...], float]) -> Metric:
    family = reading.family()
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family

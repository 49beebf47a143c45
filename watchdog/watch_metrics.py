"""The metrics of what the watchdog watches, each declared once; a reading that is absent exports nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..alerts.delivery import RETRIED, Outcome
from .incidents import ENGINE_DEATH, JOURNAL, SERVICE_DEATH, SOAK
from .samples import HostReading, Sample
from .soak_news import GateOutcome, SoakNews
from .verdicts import DetectorName, Level, Number, Verdict

INCIDENTS = "stoker_incidents_total"
INCIDENT_OPEN = "stoker_incident_open"
ACTIONS = "stoker_watchdog_actions_total"
CANARY_REQUESTS = "stoker_canary_requests_total"
WEBHOOK_DELIVERIES = "stoker_webhook_deliveries_total"
WEBHOOKS_WAITING = "stoker_webhooks_waiting"
CANARY_OK = "stoker_canary_ok"
CANARY_DURATION = "stoker_canary_duration_seconds"
DETECTOR_FIRING = "stoker_detector_firing"
JOURNAL_DROPPED = "stoker_journal_records_dropped_total"
LEAK_SLOPE = "stoker_leak_slope_bytes_per_hour"
LEAK_SLOPE_LOWER_BOUND = "stoker_leak_slope_lower_bound_bytes_per_hour"
MEMORY_EXHAUSTION = "stoker_memory_exhaustion_seconds"
FRAGMENTATION_RATIO = "stoker_fragmentation_ratio"
DECODE_SLOWDOWN_RATIO = "stoker_decode_slowdown_ratio"
SWAP_USED = "stoker_swap_used_bytes"
SWAP_IN = "stoker_swap_in_bytes_total"
SWAP_OUT = "stoker_swap_out_bytes_total"
MEMORY_PRESSURE_LEVEL = "stoker_memory_pressure_level"
THERMAL_LEVEL = "stoker_thermal_level"
CPU_FREQUENCY_RATIO = "stoker_cpu_frequency_ratio"
SOAK_RUN_ACTIVE = "stoker_soak_run_active"
SOAK_VERDICT = "stoker_soak_verdict"

CANARY_OUTCOMES = ("answered", "refused", "failed", "right", "wrong")
WEBHOOK_OUTCOMES = (*Outcome, RETRIED)
DURATION_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

_OF_VERDICTS = {
    LEAK_SLOPE: (DetectorName.LEAK, Number.SLOPE_BYTES_PER_HOUR, "Growth of memory that is neither weights nor KV"),
    LEAK_SLOPE_LOWER_BOUND: (DetectorName.LEAK, Number.SLOPE_LOWER_BOUND_BYTES_PER_HOUR, "What that is at least"),
    MEMORY_EXHAUSTION: (DetectorName.LEAK, Number.EXHAUSTION_SECONDS, "Until memory runs out at that rate"),
    FRAGMENTATION_RATIO: (
        DetectorName.FRAGMENTATION,
        Number.FRAGMENTATION_RATIO,
        "Memory held over memory used",
    ),
    DECODE_SLOWDOWN_RATIO: (DetectorName.SLOWDOWN, Number.SLOWDOWN_RATIO, "Usual decode speed over the present one"),
}
_OF_HOST: dict[str, tuple[Callable[[HostReading], float | None], str]] = {
    SWAP_USED: (lambda host: host.swap_used_bytes, "Swap in use on this machine"),
    MEMORY_PRESSURE_LEVEL: (lambda host: host.pressure_level, "macOS: 1 normal, 2 warning, 4 critical"),
    THERMAL_LEVEL: (lambda host: host.thermal_level, "0 nominal to 4"),
    CPU_FREQUENCY_RATIO: (lambda host: host.clock_ratio, "Present clock over the highest"),
    SWAP_IN: (lambda host: host.swap_in_bytes_total, "Read back from swap since the machine's start"),
    SWAP_OUT: (lambda host: host.swap_out_bytes_total, "Written to swap since the machine's start"),
}
_JOURNAL_DROPPED = "Records that made room for later ones unwritten"
_CANARY_OK = "1 if the last canary was answered, 0 if it was not"
_DETECTOR_FIRING = "1 while a detector fires"
_SOAK_RUN_ACTIVE = "1 while a soak run asks, 0 once one is over"
_SOAK_VERDICT = "1 for a gate of the last soak run that was kept, 0 for one that was not; absent: it cannot say"
SOAK_SILENT_S = 180.0
"""A run that has said nothing for three of its longest intervals is not there any more."""


class WatchMetrics(Collector):
    """Counts incidents, actions and canaries, and shows the last look at a scrape."""

    def __init__(self, registry: CollectorRegistry, journal_dropped: Callable[[], int]) -> None:
        self._incidents = Counter(INCIDENTS, "Incidents by what is wrong", ["kind"], registry=registry)
        self._open = Gauge(INCIDENT_OPEN, "1 while an incident of this kind is open", ["kind"], registry=registry)
        self._actions = Counter(ACTIONS, "What the watchdog did about incidents", ["kind"], registry=registry)
        self._canaries = Counter(CANARY_REQUESTS, "Canaries by what became of them", ["outcome"], registry=registry)
        self._canary_duration = Histogram(
            CANARY_DURATION, "From a canary's sending to its answer", buckets=DURATION_BUCKETS_S, registry=registry
        )
        self._webhooks = Counter(
            WEBHOOK_DELIVERIES, "Webhooks by what came of an attempt or a delivery", ["outcome"], registry=registry
        )
        self._webhooks_waiting = Gauge(WEBHOOKS_WAITING, "Webhooks that are not delivered yet", registry=registry)
        # Prometheus sees no increase in a series that begins with 1.
        for kind in (*DetectorName, ENGINE_DEATH, SERVICE_DEATH, JOURNAL, SOAK):
            self._incidents.labels(kind)
        for outcome in CANARY_OUTCOMES:
            self._canaries.labels(outcome)
        for outcome in WEBHOOK_OUTCOMES:
            self._webhooks.labels(outcome)
        self._canary_ok: float | None = None
        self._journal_dropped = journal_dropped
        self._sample: Sample | None = None
        self._verdicts: tuple[Verdict, ...] = ()
        self._soak: SoakNews | None = None
        self._soak_told_at = 0.0
        registry.register(self)

    def show(self, sample: Sample, verdicts: tuple[Verdict, ...]) -> None:
        """The last look."""
        self._sample, self._verdicts = sample, verdicts

    def soak(self, news: SoakNews) -> None:
        """How the last soak run does."""
        self._soak, self._soak_told_at = news, time.monotonic()

    def incident_opened(self, kind: str) -> None:
        self._incidents.labels(kind).inc()
        self._open.labels(kind).inc()

    def incident_closed(self, kind: str) -> None:
        self._open.labels(kind).dec()

    def acted(self, kind: str) -> None:
        self._actions.labels(kind).inc()

    def canary(self, outcome: str, duration_s: float) -> None:
        self._canaries.labels(outcome).inc()
        self._canary_duration.observe(duration_s)
        if outcome != "refused":
            self._canary_ok = float(outcome != "failed")

    def webhook(self, outcome: str) -> None:
        self._webhooks.labels(outcome).inc()

    def webhooks_waiting(self, count: int) -> None:
        self._webhooks_waiting.set(count)

    def describe(self) -> Iterator[Metric]:
        """Every family of `collect`, so that their names are known while there is nothing to say."""
        yield _family(JOURNAL_DROPPED, _JOURNAL_DROPPED)
        yield _family(CANARY_OK, _CANARY_OK)
        yield _family(DETECTOR_FIRING, _DETECTOR_FIRING, ["detector"])
        yield _family(SOAK_RUN_ACTIVE, _SOAK_RUN_ACTIVE, ["run"])
        yield _family(SOAK_VERDICT, _SOAK_VERDICT, ["run", "gate"])
        yield from (_family(name, text) for name, (_, _, text) in _OF_VERDICTS.items())
        yield from (_family(name, text) for name, (_, text) in _OF_HOST.items())

    def collect(self) -> Iterator[Metric]:
        yield from _reading(JOURNAL_DROPPED, _JOURNAL_DROPPED, self._journal_dropped())
        yield from _reading(CANARY_OK, _CANARY_OK, self._canary_ok)
        firing = _family(DETECTOR_FIRING, _DETECTOR_FIRING, ["detector"])
        for verdict in self._verdicts:
            firing.add_metric([verdict.detector.value], float(verdict.level is Level.FIRING))
        yield firing
        if self._soak is not None:
            yield from self._soak_families(self._soak)
        said = {verdict.detector: verdict.numbers for verdict in self._verdicts}
        for name, (detector, number, text) in _OF_VERDICTS.items():
            yield from _reading(name, text, said.get(detector, {}).get(number))
        if self._sample is not None:
            for name, (reading, text) in _OF_HOST.items():
                yield from _reading(name, text, reading(self._sample.host))

    def _soak_families(self, news: SoakNews) -> Iterator[Metric]:
        heard = time.monotonic() - self._soak_told_at < SOAK_SILENT_S
        active = _family(SOAK_RUN_ACTIVE, _SOAK_RUN_ACTIVE, ["run"])
        active.add_metric([news.run], float(news.active and heard))
        yield active
        verdicts = _family(SOAK_VERDICT, _SOAK_VERDICT, ["run", "gate"])
        for gate, outcome in news.gates.items():
            if outcome is not GateOutcome.INCONCLUSIVE:
                verdicts.add_metric([news.run, gate], float(outcome is GateOutcome.PASS))
        yield verdicts


def _family(name: str, text: str, labels: Sequence[str] = ()) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return kind(name, text, labels=labels)


def _reading(name: str, text: str, value: float | None) -> Iterator[Metric]:
    if value is not None:
        family = _family(name, text)
        family.add_metric([], value)
        yield family

"""Every metric of the service, declared once: name, help, labels, buckets. Names are prefixed `stoker_`.

A label is never a request id, a prompt or a key. `READINGS` are taken at the moment of a scrape; those of the engine
are relayed from its heartbeats, and absent while there is no engine that has sent one (`readings`).
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

PREFIX = "stoker_"

AVAILABILITY_OBJECTIVE = 0.995
"""Share of requests that may be expected to be answered; boards and alerts measure against it."""
TTFT_OBJECTIVE, TTFT_OBJECTIVE_S = 0.95, 10.0
"""Share of requests whose first token may be expected within so many seconds, one of `TTFT_BUCKETS`."""

TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5),
    *(10, 20, 40, 80, 160, 640, 1800),
)
TOKEN_BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10)
DURATION_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)


@dataclass(frozen=True)
class Reading:
    """A metric whose value is read at a scrape."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    counts: bool = False

    def family(self) -> CounterMetricFamily | GaugeMetricFamily:
        """Without a value yet."""
        kind = CounterMetricFamily if self.counts else GaugeMetricFamily
        return kind(PREFIX + self.name, self.help, labels=self.labels)


REQUESTS_RUNNING = Reading("requests_running", "Requests being computed")
REQUESTS_WAITING = Reading("requests_waiting", "Requests that wait for the engine")
SPANS_DROPPED = Reading(
    "spans_dropped", "Spans meant for the collector that it never got: the queue was full, or it failed", counts=True
)
ENGINE_STEPS = Reading("engine_steps", "Steps of all engines since the service began", counts=True)
ENGINE_LAST_STEP_AGE = Reading("engine_last_step_age_seconds", "Age of the engine's last step")
ENGINE_BATCH_SIZE = Reading("engine_batch_size", "Rows in the engine's batch")
ENGINE_MEMORY = Reading(
    "engine_memory_bytes",
    "The engine's memory; `active` includes `weights` and `kv`, `cache` is freed buffers",
    ("kind",),
)
PREFIX_CACHE_LOOKUPS = Reading("prefix_cache_lookups", "Prompts looked up in the prefix cache", counts=True)
PREFIX_CACHE_TOKENS = Reading(
    "prefix_cache_tokens",
    "Prompt tokens by whether, and in which tier, their KV was found",
    ("outcome", "tier"),
    counts=True,
)
PREFIX_CACHE_MISSES = Reading(
    "prefix_cache_misses", "Lookups that did not find the whole prompt, by why", ("reason",), counts=True
)
PREFIX_CACHE_BYTES = Reading("prefix_cache_bytes", "KV that the prefix cache holds", ("tier",))
PREFIX_CACHE_EVICTIONS = Reading(
    "prefix_cache_evictions", "Blocks that left a tier because room was made", ("tier",), counts=True
)
SPECULATIVE_TOKENS = Reading(
    "speculative_tokens",
    "Tokens that were drafted, and those of them that were right",
    ("method", "outcome"),
    counts=True,
)

READINGS = (
    REQUESTS_RUNNING,
    REQUESTS_WAITING,
    SPANS_DROPPED,
    ENGINE_STEPS,
    ENGINE_LAST_STEP_AGE,
    ENGINE_BATCH_SIZE,
    ENGINE_MEMORY,
    PREFIX_CACHE_LOOKUPS,
    PREFIX_CACHE_TOKENS,
    PREFIX_CACHE_MISSES,
    PREFIX_CACHE_BYTES,
    PREFIX_CACHE_EVICTIONS,
    SPECULATIVE_TOKENS,
)


class Metrics:
    """The counters and histograms, in a registry of their own."""

    def __init__(self) -> None:
        # Each `_created` series doubles what a scrape carries, and no board or rule reads them.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client leaves it without annotations
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Answers by model, endpoint and status", "model", "endpoint", "code")
        self.requests_shed = self._counter("requests_shed", "Requests turned away at the door", "reason")
        self.requests_cancelled = self._counter("requests_cancelled", "Requests whose client left or stalled")
        self.request_resumes = self._counter(
            "request_resumes", "Requests whose engine died, by what came of it", "outcome"
        )
        self.prompt_tokens = self._counter(
            "prompt_tokens", "Prompt tokens, by whether they were computed or in which tier their KV was", "source"
        )
        self.generated_tokens = self._counter("generated_tokens", "Tokens received from the engine")
        self.request_duration = self._histogram(
            "request_duration_seconds", "From a generation's arrival to its end", DURATION_BUCKETS
        )
        self.time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "From a request's arrival to its first token", TTFT_BUCKETS
        )
        self.time_per_output_token = self._histogram(
            "time_per_output_token_seconds", "Of one request: (end - first token) / (tokens - 1)", TOKEN_BUCKETS
        )
        self.inter_token_latency = self._histogram(
            "inter_token_latency_seconds", "Between two deliveries of tokens to one request", TOKEN_BUCKETS
        )
        self.queue = self._histogram("queue_seconds", "From the engine's receipt to the prefill's begin", TTFT_BUCKETS)
        self.prefill = self._histogram("prefill_seconds", "From the prefill's begin to the first token", TTFT_BUCKETS)
        self.decode = self._histogram("decode_seconds", "From the first token to the end", DURATION_BUCKETS)
        self.resume_gap = self._histogram(
            "resume_gap_seconds", "From an engine's death to a request's next token from another", DURATION_BUCKETS
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(PREFIX + name, text, registry=self.registry, buckets=buckets)

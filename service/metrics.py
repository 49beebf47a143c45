"""Every metric of the service, declared once: name, help, labels, buckets. Names are prefixed `stoker_`.

A label is never a request id, a prompt or a key. `ENGINE_*` are relayed from the engine's heartbeats.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

PREFIX = "stoker_"

TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5),
    *(10, 20, 40, 80, 160, 640, 1800),
)
TOKEN_BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10)
DURATION_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)

REQUESTS_RUNNING = PREFIX + "requests_running"
REQUESTS_WAITING = PREFIX + "requests_waiting"
ENGINE_STEPS = PREFIX + "engine_steps"
ENGINE_LAST_STEP_AGE = PREFIX + "engine_last_step_age_seconds"
ENGINE_BATCH_SIZE = PREFIX + "engine_batch_size"
ENGINE_MEMORY = PREFIX + "engine_memory_bytes"


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
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens by where their KV came from", "source")
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

"""The watchdog's metrics: every name and label declared once, on a registry of this process's own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from .death import Cause, Death
from .supervisor import State

ENGINE_UP = "stoker_engine_up"
ENGINE_STATE = "stoker_engine_state"
ENGINE_RESTARTS = "stoker_engine_restarts_total"
ENGINE_START_SECONDS = "stoker_engine_start_seconds"
SERVICE_UP = "stoker_service_up"
SERVICE_STATE = "stoker_service_state"
SERVICE_RESTARTS = "stoker_service_restarts_total"
SERVICE_START_SECONDS = "stoker_service_start_seconds"
SHED_LEVEL = "stoker_shed_level"

START_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1200)


class ChildMetrics:
    """What is counted about one child; the supervisor's `Observer`."""

    def __init__(
        self, up: Gauge, state: Gauge, restarts: Counter, start_seconds: Histogram, labels: dict[str, str]
    ) -> None:
        self._up = up.labels(**labels) if labels else up
        self._states = {each: state.labels(**labels, state=each.value) for each in State}
        self._restarts = {cause: restarts.labels(**labels, reason=cause.value) for cause in Cause}
        self._start_seconds = start_seconds.labels(**labels) if labels else start_seconds

    def entered(self, state: State) -> None:
        self._up.set(state is State.READY)
        for each, gauge in self._states.items():
            gauge.set(each is state)

    def restarted(self, cause: Cause) -> None:
        self._restarts[cause].inc()

    def became_ready(self, start_s: float) -> None:
        self._start_seconds.observe(start_s)

    def ended(self, death: Death) -> None:
        """Counted when it is restarted."""


class WatchdogMetrics:
    """The registry and everything on it."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library forgot to annotate it
        self.registry = CollectorRegistry()
        self._engine_up = Gauge(ENGINE_UP, "1 while the engine takes requests", ["model"], registry=self.registry)
        self._engine_state = Gauge(
            ENGINE_STATE, "1 for the engine's current state", ["model", "state"], registry=self.registry
        )
        self._engine_restarts = Counter(
            ENGINE_RESTARTS, "Engine restarts by what ended it", ["model", "reason"], registry=self.registry
        )
        self._engine_start_seconds = Histogram(
            ENGINE_START_SECONDS,
            "From the engine's spawn until it was ready",
            ["model"],
            buckets=START_BUCKETS_S,
            registry=self.registry,
        )
        self._service_up = Gauge(SERVICE_UP, "1 while the service answers", registry=self.registry)
        self._service_state = Gauge(
            SERVICE_STATE, "1 for the service's current state", ["state"], registry=self.registry
        )
        self._service_restarts = Counter(
            SERVICE_RESTARTS, "Service restarts by what ended it", ["reason"], registry=self.registry
        )
        self._service_start_seconds = Histogram(
            SERVICE_START_SECONDS,
            "From the service's spawn until it answered",
            buckets=START_BUCKETS_S,
            registry=self.registry,
        )
        self.shed_level = Gauge(
            SHED_LEVEL, "How much load is turned away, from 0 (nothing) to 3 (everything new)", registry=self.registry
        )

    def engine(self, model: str) -> ChildMetrics:
        return ChildMetrics(
            self._engine_up,
            self._engine_state,
            self._engine_restarts,
            self._engine_start_seconds,
            {"model": model},
        )

    def service(self) -> ChildMetrics:
        return ChildMetrics(
            self._service_up, self._service_state, self._service_restarts, self._service_start_seconds, {}
        )

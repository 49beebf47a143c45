"""What users feel, or soon will, each as one alert: few, and each with something to do about it.

Of a group the causes come first: Prometheus judges its rules one after the other, and each sees what those before it
found.
"""

from __future__ import annotations

from .rule import DOWN, Alert, Group
from .severity import Severity

UNREACHED = (DOWN, "StokerRestartLoop", "StokerEngineDown", "StokerServiceDown")
"""While one of these fires nobody is answered, and whatever else is wrong with answers follows from it."""
_AFTERWARDS = "30s"
"""Until a canary has shown that users are answered again."""
_CRITICAL, _WARNING, _INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO


def _fires(detector: str) -> str:
    """Within the last minutes: what is done against it makes a finding come and go, and that is one trouble."""
    return f'max(max_over_time(stoker_detector_firing{{detector="{detector}"}}[5m])) == 1'


REACH = (
    Alert(
        DOWN,
        _CRITICAL,
        'max(up{job="stoker-watchdog"} or vector(0)) == 0',
        "Nobody is served: Stoker itself is away.",
        "The watchdog does not answer, so nothing restarts what is down. On its machine: `stoker status`, then "
        "what runs `stoker serve` (launchd, systemd, docker).",
        "stoker-uptime",
        lasting="20s",
        lingering=_AFTERWARDS,
        causes=(),
    ),
    Alert(
        "StokerRestartLoop",
        _CRITICAL,
        'sum(increase(stoker_engine_restarts_total{reason!="requested"}[10m])) > 2.5 '
        'or max(stoker_engine_state{state="circuit_open"}) == 1',
        "Streams pause again and again: the engine keeps dying.",
        "`stoker incidents --since 1h` has every death with its reason; the same reason each time has one cause.",
        "stoker-uptime",
    ),
    Alert(
        "StokerEngineDown",
        _CRITICAL,
        "min(stoker_engine_up) == 0",
        "Every stream pauses and new answers wait: no engine takes requests.",
        "Stoker restarts it by itself. If it does not come back: `stoker status` has the reason.",
        "stoker-uptime",
        lasting="20s",
        lingering=_AFTERWARDS,
        causes=(DOWN, "StokerRestartLoop"),
    ),
    Alert(
        "StokerServiceDown",
        _CRITICAL,
        "min(stoker_service_up) == 0",
        "Connections drop and new ones wait: the API does not answer.",
        "Stoker restarts it by itself. If it does not come back: `stoker status` has the reason.",
        "stoker-uptime",
        lasting="20s",
        lingering=_AFTERWARDS,
    ),
    Alert(
        "StokerStalled",
        _WARNING,
        'sum(increase(stoker_engine_restarts_total{reason="stalled"}[15m])) > 0.5 '
        "or max(stoker_engine_last_step_age_seconds) > 60 and on () sum(stoker_requests_running) > 0",
        "Streams stood still: the engine had work and did none.",
        "Stoker replaces such an engine and keeps its stacks: `stoker status --json`, `log_tail`.",
        "stoker-host",
        causes=(DOWN, "StokerRestartLoop"),
    ),
    Alert(
        "StokerCanaryFailing",
        _CRITICAL,
        "min(stoker_canary_ok) == 0",
        "A small request of Stoker's own was not answered; users' are likely not either.",
        "`stoker doctor` asks at every layer and says which one does not answer.",
        "stoker-uptime",
        causes=UNREACHED,
    ),
    Alert(
        "StokerCanaryWrong",
        _CRITICAL,
        'sum(increase(stoker_canary_requests_total{outcome="wrong"}[1h])) > 0.5',
        "Answers may be wrong: the same prompt gave other tokens with the prefix cache than without.",
        "Stoker emptied the cache. If it happens again, set `engine.prefix_cache_ram_bytes = 0` and report it.",
        "stoker-uptime",
    ),
)
MEMORY = (
    Alert(
        "StokerLeak",
        _WARNING,
        f"min(min_over_time(stoker_memory_exhaustion_seconds[5m])) < 86400 and on () {_fires('leak')}",
        "In less than a day the engine will run out of memory.",
        "Stoker reclaims and, in a quiet minute, restarts the engine. `stoker incidents` has the rate.",
        "stoker-memory",
    ),
    Alert(
        "StokerFragmentation",
        _INFO,
        _fires("fragmentation"),
        "Memory is held that nobody can use; long prompts are refused sooner.",
        "Stoker gives it back. If it returns every hour, lower `engine.cache_limit_bytes`.",
        "stoker-memory",
    ),
    Alert(
        "StokerSwapGrowing",
        _WARNING,
        _fires("swap"),
        "Answers become slow: memory that is in use is being put on the disk.",
        "Another program needs memory, or the model is too large: `stoker doctor` says which.",
        "stoker-memory",
    ),
    Alert(
        "StokerDiskFull",
        _WARNING,
        _fires("disk") + ' or max(stoker_incident_open{kind="journal"}) == 1',
        "After a restart prompts are slow: the disk takes no more of the prefix cache, nor of the journal.",
        "Make room under $STOKER_HOME; writing begins again by itself.",
        "stoker-memory",
    ),
)
LOAD = (
    Alert(
        "StokerThrottled",
        _WARNING,
        f"{_fires('thermal')} and on () max(stoker_decode_slowdown_ratio) > 1.3",
        "Tokens come slowly: the machine throttles for heat.",
        "Load is shed until it is cool. Look at its fans, its place and its power supply.",
        "stoker-host",
        lasting="15s",
    ),
    Alert(
        "StokerSheddingForLong",
        _WARNING,
        "min_over_time(max(stoker_shed_level)[5m:15s]) >= 1",
        "Batch requests and long prompts get 503: load has been shed for minutes.",
        "`stoker status` names what is short. What does not pass by itself is memory: a smaller context or model.",
        "stoker-requests",
        lasting="30s",
        causes=(*UNREACHED, "StokerSwapGrowing", "StokerLeak", "StokerThrottled"),
    ),
    Alert(
        "StokerQueueSaturated",
        _WARNING,
        'sum(increase(stoker_requests_shed_total{reason=~"queue_full|queue_timeout"}[5m])) > 4.5',
        "Users are sent away with 429 or wait in vain: the queue is full.",
        "`stoker status --trace last` shows the wait; give clients limits, or the endpoint a smaller model.",
        "stoker-requests",
        causes=(*UNREACHED, "StokerThrottled", "StokerSheddingForLong"),
    ),
    Alert(
        "StokerPrefixHitCollapse",
        _WARNING,
        "stoker:prefix_hits:ratio_rate5m < 0.5 * stoker:prefix_hits:ratio_rate1d "
        "and stoker:prefix_hits:ratio_rate1d > 0.2 and stoker:prefix_tokens:increase5m > 20000 "
        # New work finds nothing either; what is lost had been there.
        "and stoker:prefix_losses:increase5m > 4.5",
        "Agents wait for whole prompts again: the prefix cache finds less than half of what it did.",
        "`stoker status --trace last` names the message that diverged; a client's changing header is the usual cause.",
        "stoker-memory",
    ),
)
TELLING = (
    Alert(
        "StokerSpansDropped",
        _INFO,
        "sum(increase(stoker_spans_dropped_total[15m])) > 0.5",
        "Traces have gaps: the collector does not take them.",
        "Requests are not touched. See whether the collector of `telemetry.otlp_endpoint` is up.",
        "stoker-requests",
    ),
    Alert(
        "StokerWebhooksDropped",
        _WARNING,
        'sum(increase(stoker_webhook_deliveries_total{outcome="dropped"}[1h])) > 0.5',
        "Somebody was not told of an incident: a webhook's target refused it for good, or for a day.",
        "`stoker alerts list` has the target and its answer, `stoker alerts test` tries it.",
        "stoker-uptime",
    ),
    Alert(
        "StokerSoakFailed",
        _WARNING,
        'sum(increase(stoker_incidents_total{kind="soak"}[1h])) > 0.5',
        "The endpoint did not hold for as long, or as well, as it was to: a soak run failed.",
        "`stoker incidents --since 72h` names the gate that was not kept; the run's report shows it over time.",
        "stoker-soak",
    ),
    Alert(
        "StokerDeadMansSwitch",
        _INFO,
        "vector(1)",
        "This alert always fires; when it stops, nobody would be told of anything.",
        "Nothing is wrong. Send it to a service that calls when it is not heard of.",
        "stoker-uptime",
        causes=(),
    ),
)

GROUPS = (
    Group("stoker-reach", REACH),
    Group("stoker-memory", MEMORY),
    Group("stoker-load", LOAD),
    Group("stoker-telling", TELLING),
)

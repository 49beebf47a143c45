"""Uptime over 72 hours: was it there, what was lost of the error budget, and what interrupted it."""

from __future__ import annotations

from ...service.metrics import AVAILABILITY_OBJECTIVE
from ..links import to_board, to_runbook
from ..panels import (
    BLUE,
    GREEN,
    GREY,
    RED,
    YELLOW,
    Absent,
    Board,
    Kind,
    Panel,
    Query,
    Row,
    figure,
    over_range,
    quantile,
    rate,
)

# Ready means that a canary would be answered. While the watchdog itself is away, its gauges are stale and only
# Prometheus' own `up` says so.
ANSWERS = '((min(stoker_engine_up) * min(stoker_service_up)) or (0 * min(up{job="stoker-watchdog"})))'
FAILED = 'stoker_requests_total{code=~"5.."}'
FAILURE_SHARE = (
    f"((sum(increase({FAILED}[$__range])) or vector(0)) / clamp_min(sum(increase(stoker_requests_total[$__range])), 1))"
)
BUDGET = f"{1 - AVAILABILITY_OBJECTIVE:.3g}"

START = "sum(rate(stoker_engine_start_seconds_sum[$__range])) / sum(rate(stoker_engine_start_seconds_count[$__range]))"

_ENGINE_STATES = (
    ("0", "away", GREY),
    ("1", "starting", BLUE),
    ("2", "ready", GREEN),
    ("3", "stopping", YELLOW),
    ("4", "waits to restart", YELLOW),
    ("5", "circuit open", RED),
    ("6", "failed", RED),
)


def _burn(window: str) -> str:
    """How many times faster than the objective allows requests fail, over a window."""
    taken = f"clamp_min(sum(rate(stoker_requests_total[{window}])), 1e-9)"
    return f"(sum(rate({FAILED}[{window}])) or vector(0)) / {taken} / {BUDGET}"


def _state(metric: str, by: str) -> str:
    """The current state as a number of `_ENGINE_STATES`."""
    codes = {"stopped": 0, "starting": 1, "ready": 2, "stopping": 3, "backoff": 4, "circuit_open": 5, "failed": 6}
    parts = (f'max{by} ({metric}{{state="{state}"}}) * {code}' for state, code in codes.items())
    return " + ".join(parts)


UPTIME = Board(
    uid="stoker-uptime",
    title="Stoker / Uptime 72 h",
    about="Was the endpoint there for three days, and if not, why.",
    since="now-72h",
    rows=(
        Row(
            "Was it there?",
            (
                figure(
                    "Uptime",
                    "Share of the watched time in which a canary would be answered. Below 99.5 % a night was spoilt.",
                    Query(f"avg_over_time({ANSWERS}[$__range:5s])", instant=True),
                    unit="percentunit",
                    steps=((None, RED), (0.99, YELLOW), (0.995, GREEN)),
                    width=4,
                    most=1,
                ),
                figure(
                    "Success ratio",
                    "Answers that were not the server's failure; those that were turned away with 5xx are.",
                    Query(f"1 - {FAILURE_SHARE}", instant=True),
                    unit="percentunit",
                    steps=((None, RED), (0.99, YELLOW), (0.995, GREEN)),
                    width=4,
                    most=1,
                ),
                figure(
                    "Error budget left",
                    f"What is left of the {BUDGET} of requests that may fail. Below 0 the objective is missed.",
                    Query(f"1 - {FAILURE_SHARE} / {BUDGET}", instant=True),
                    unit="percentunit",
                    steps=((None, RED), (0, YELLOW), (0.25, GREEN)),
                    width=4,
                    least=None,
                    most=1,
                ),
                figure(
                    "Engine deaths",
                    "Restarts of engines in this range. More than one a day wants a look at their reasons.",
                    Query(over_range("stoker_engine_restarts_total"), instant=True),
                    steps=((None, GREEN), (1, YELLOW), (10, RED)),
                    width=4,
                    links=(to_runbook("StokerEngineDown"),),
                ),
                figure(
                    "Open incidents",
                    "What is wrong right now; `stoker incidents` explains each.",
                    Query("sum(stoker_incident_open) or vector(0)", instant=True),
                    steps=((None, GREEN), (1, RED)),
                    width=4,
                ),
                figure(
                    "Shed level",
                    "Load turned away right now: 1 long and batch prompts, 2 unfair shares too, 3 everything new.",
                    Query("max(stoker_shed_level)", instant=True),
                    steps=((None, GREEN), (1, YELLOW), (3, RED)),
                    width=4,
                    links=(to_runbook("StokerSheddingForLong"), to_board("stoker-memory", "What holds the memory?")),
                ),
                Panel(
                    "States",
                    "Anything but ready is time in which clients wait. Gaps are times without a watchdog.",
                    "none",
                    (
                        Query(_state("stoker_engine_state", " by (model)"), "engine {{model}}"),
                        Query(_state("stoker_service_state", ""), "service"),
                    ),
                    kind=Kind.STATES,
                    width=24,
                    height=6,
                    states=_ENGINE_STATES,
                ),
            ),
        ),
        Row(
            "What interrupted it?",
            (
                figure(
                    "Restarts by reason",
                    "`killed` without anybody's doing is the kernel's, for memory; `stalled` is a hang.",
                    Query(
                        over_range("stoker_engine_restarts_total", "reason") + " > 0",
                        "{{reason}}",
                        absent=Absent.RESUMES,
                    ),
                    steps=((None, YELLOW),),
                    width=8,
                    height=5,
                    links=(to_runbook("StokerRestartLoop"),),
                ),
                figure(
                    "Incidents by kind",
                    "What was detected in this range. A kind that returns every day is not cured by what is done.",
                    Query(over_range("stoker_incidents_total", "kind") + " > 0", "{{kind}}", absent=Absent.INCIDENTS),
                    steps=((None, YELLOW),),
                    width=8,
                    height=5,
                ),
                figure(
                    "Resumed requests",
                    "Requests whose engine died, by what came of them. Anything but `resumed` was noticed by a client.",
                    Query(
                        over_range("stoker_request_resumes_total", "outcome") + " > 0",
                        "{{outcome}}",
                        absent=Absent.RESUMES,
                    ),
                    steps=((None, BLUE),),
                    width=8,
                    height=5,
                ),
                Panel(
                    "Error budget burn",
                    "How many times faster than allowed requests fail. 14.4 over an hour empties 30 days in two.",
                    "none",
                    (
                        Query(
                            _burn("1h"),
                            "1 h",
                        ),
                        Query(
                            _burn("6h"),
                            "6 h",
                        ),
                    ),
                    steps=((None, GREEN), (6, YELLOW), (14.4, RED)),
                    links=(to_runbook("StokerErrorBudgetBurn"), to_board("stoker-requests", "Which requests?")),
                ),
                Panel(
                    "Answers by status",
                    "5xx are ours, 429 and 529 say that more was asked than could be done.",
                    "reqps",
                    (Query(rate("stoker_requests_total", "code"), "{{code}}"),),
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Would it have answered?",
            (
                figure(
                    "Canary",
                    "Small requests through the whole stack, by the watchdog. Any outcome but ok is an incident.",
                    Query(
                        over_range("stoker_canary_requests_total", "outcome") + " > 0",
                        "{{outcome}}",
                        absent=Absent.CANARY,
                    ),
                    steps=((None, BLUE),),
                    width=8,
                    height=8,
                    links=(to_runbook("StokerCanaryFailing"),),
                ),
                Panel(
                    "Canary duration",
                    "A canary that takes ten times its usual time is what users feel too.",
                    "s",
                    (
                        Query(
                            # They come every few minutes, so that a narrower window would mostly be empty.
                            quantile(0.95, "stoker_canary_duration_seconds", "15m"),
                            "p95",
                            absent=Absent.CANARY,
                        ),
                    ),
                    width=8,
                    steps=((None, GREEN), (5, YELLOW), (30, RED)),
                ),
                Panel(
                    "Time to ready",
                    "From an engine's spawn until it takes requests. It bounds every pause that a death causes.",
                    "s",
                    (
                        Query(
                            START,
                            "mean",
                            absent=Absent.RESUMES,
                        ),
                    ),
                    width=8,
                    steps=((None, GREEN), (10, YELLOW), (60, RED)),
                ),
                Panel(
                    "Soak runs",
                    "When a soak test asked. What it found is on its own board.",
                    "none",
                    (Query("max by (run) (stoker_soak_run_active)", "{{run}}", absent=Absent.SOAK),),
                    kind=Kind.STATES,
                    width=24,
                    height=5,
                    states=(("0", "over", GREY), ("1", "runs", BLUE)),
                    links=(to_board("stoker-soak", "Did it drift?"),),
                ),
            ),
        ),
    ),
)

"""Error budgets of availability and of the time to the first token, and how fast they burn.

Several windows and factors, as the SRE workbook has it (https://sre.google/workbook/alerting-on-slos/): a budget of 30
days, and one of 72 hours, whose windows are a tenth as long, for a run of that length. The label `slo` says which.
Failed canaries count as failed requests: so there is always something to judge by, also while nobody else asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..service.metrics import AVAILABILITY_OBJECTIVE, TTFT_OBJECTIVE, TTFT_OBJECTIVE_S
from .rule import Alert, Group, Recording
from .severity import Severity
from .symptoms import UNREACHED

FEWEST_REQUESTS = 10
"""In the longer window; of fewer, one failure would be a burn."""


@dataclass(frozen=True)
class Burn:
    """Both windows must burn at the factor: the long one says that it matters, the short one that it still goes on."""

    long: str
    short: str
    factor: float
    severity: Severity


_PAGE, _TICKET = Severity.CRITICAL, Severity.WARNING
BURNS = {
    "30d": (
        Burn("1h", "5m", 14.4, _PAGE),
        Burn("6h", "30m", 6, _PAGE),
        Burn("1d", "2h", 3, _TICKET),
        Burn("3d", "6h", 1, _TICKET),
    ),
    "72h": (
        Burn("6m", "30s", 14.4, _PAGE),
        Burn("36m", "3m", 6, _PAGE),
        Burn("144m", "12m", 3, _TICKET),
        Burn("432m", "36m", 1, _TICKET),
    ),
}


@dataclass(frozen=True)
class Objective:
    """`bad` and `all` are rates with `{window}` in them; `share` of all may be bad."""

    alert: str
    metric: str
    bad: str
    all: str
    share: float
    summary: str
    description: str
    board: str
    causes: tuple[str, ...]


def _sum(selector: str) -> str:
    return f"(sum(rate({selector}[{{window}}])) or vector(0))"


# Scrapes and health checks are requests too, and would make every share of failures small. A canary that was answered
# is among the requests; one that was not may have reached nobody who counts.
_UNANSWERED = _sum("stoker_canary_requests_total{{outcome=`failed`}}")
_ASKED = f"{_sum('stoker_requests_total{{endpoint=~`/v1/.+`}}')} + {_UNANSWERED}"
_FAILED = f"{_sum('stoker_requests_total{{endpoint=~`/v1/.+`,code=~`5..`}}')} + {_UNANSWERED}"
_FIRST_TOKENS = _sum("stoker_time_to_first_token_seconds_count")
_SOON = _sum(f"stoker_time_to_first_token_seconds_bucket{{{{le=`{TTFT_OBJECTIVE_S:.1f}`}}}}")

AVAILABILITY = Objective(
    alert="StokerErrorBudgetBurn",
    metric="request_errors",
    bad=_FAILED,
    all=_ASKED,
    share=1 - AVAILABILITY_OBJECTIVE,
    summary="Requests fail so fast that the error budget will not last.",
    description="Clients get 5xx or broken streams. `stoker incidents --since 6h` says why and what was done.",
    board="stoker-uptime",
    causes=(*UNREACHED, "StokerCanaryFailing", "StokerSheddingForLong"),
)
FIRST_TOKEN = Objective(
    alert="StokerSlowFirstToken",
    metric="slow_first_tokens",
    bad=f"{_FIRST_TOKENS} - {_SOON}",
    all=_FIRST_TOKENS,
    share=1 - TTFT_OBJECTIVE,
    summary=f"Too many users wait longer than {TTFT_OBJECTIVE_S:g} s for the first token.",
    description="Look at the queue, the prefix cache and the heat of the machine: `stoker doctor --symptom slow`.",
    board="stoker-requests",
    causes=(*UNREACHED, "StokerCanaryFailing", "StokerThrottled"),
)
OBJECTIVES = (AVAILABILITY, FIRST_TOKEN)


def groups() -> Iterator[Group]:
    """The recordings and the alerts of every objective."""
    for objective in OBJECTIVES:
        yield Group(f"stoker-{objective.metric.replace('_', '-')}", (*_recordings(objective), *_alerts(objective)))


def _recordings(objective: Objective) -> Iterator[Recording]:
    for burns in BURNS.values():
        for burn in burns:
            asked = _in(objective.all, burn.long)
            yield Recording(_traffic(objective, burn.long), f"({asked}) * {_seconds(burn.long):g}")
    for window in sorted({window for burns in BURNS.values() for burn in burns for window in (burn.long, burn.short)}):
        yield Recording(_ratio(objective, window), f"({_in(objective.bad, window)}) / ({_in(objective.all, window)})")


def _alerts(objective: Objective) -> Iterator[Alert]:
    for slo, burns in BURNS.items():
        for burn in burns:
            bound = f"{burn.factor * objective.share:.6g}"
            yield Alert(
                name=objective.alert,
                severity=burn.severity,
                expr=f"{_ratio(objective, burn.long)} > {bound} and {_ratio(objective, burn.short)} > {bound} "
                f"and {_traffic(objective, burn.long)} >= {FEWEST_REQUESTS}",
                summary=objective.summary,
                description=objective.description,
                board=objective.board,
                labels={"slo": slo, "window": burn.long},
                causes=objective.causes,
            )


def _ratio(objective: Objective, window: str) -> str:
    return f"stoker:{objective.metric}:ratio_rate{window}"


def _traffic(objective: Objective, window: str) -> str:
    return f"stoker:{objective.metric}:asked{window}"


def _in(expr: str, window: str) -> str:
    """With the window filled in, and the quotes that PromQL and people are used to."""
    return expr.format(window=window).replace("`", '"')


def _seconds(window: str) -> int:
    return int(window[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[window[-1]]

"""What each alert is tried with: series that are well, then sick, then well, and series that are nearly sick.

Written in promtool's notation: https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stoker.alerts.objectives import AVAILABILITY, BURNS, FEWEST_REQUESTS, FIRST_TOKEN, Burn, Objective
from stoker.alerts.rule import Alert, Group, Recording
from stoker.alerts.rules import alerts, groups

Series = dict[str, str]


@dataclass(frozen=True)
class Case:
    """Times are in intervals of `every_s` seconds; None for `before` and `after` is what never ends."""

    alert: str
    series: Series
    during: int
    before: int | None
    after: int | None
    nearly: Series
    every_s: int = 15
    labels: dict[str, str] = field(default_factory=dict)
    nearly_too: Series = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "-".join([self.alert, *self.labels.values()])

    @property
    def causes(self) -> tuple[str, ...]:
        return _rule(self).causes

    def rules(self) -> dict[str, Any]:
        """The alert with the recordings that it is made of, as a file of rules: the others would take the time."""
        group = Group(self.name, (*_recordings(_rule(self).expr), _rule(self)))
        return {"groups": [group.as_yaml()]}

    def taken_over(self, rules: str, cause: str) -> dict[str, Any]:
        """A file of promtool's: what would fire does not, since its cause does."""
        told = {f'ALERTS{{alertname="{cause}",alertstate="firing"}}': flat((1, self.during + 1))}
        tests = [self._test({**self.series, **told}, [self._look(self.during, [])])]
        return self._file(rules, tests)

    def as_yaml(self, rules: str) -> dict[str, Any]:
        """A file of promtool's."""
        looks: list[tuple[int | None, list[Any]]] = [
            (self.before, []),
            (self.during, [self._fires()]),
            (self.after, []),
        ]
        sick = [self._look(at, found) for at, found in looks if at is not None]
        tests = [self._test(self.series, sick)]
        nearly = (series for series in (self.nearly, self.nearly_too) if series)
        tests.extend(self._test(series, [self._look(self.during, [])]) for series in nearly)
        return self._file(rules, tests)

    def _file(self, rules: str, tests: list[dict[str, Any]]) -> dict[str, Any]:
        return {"rule_files": [rules], "evaluation_interval": f"{self.every_s}s", "tests": tests}

    def _fires(self) -> dict[str, Any]:
        return {"exp_labels": _labels(self), "exp_annotations": _rule(self).as_yaml()["annotations"]}

    def _look(self, at: int, found: list[Any]) -> dict[str, Any]:
        return {"eval_time": f"{at * self.every_s}s", "alertname": self.alert, "exp_alerts": found}

    def _test(self, series: Series, looks: list[dict[str, Any]]) -> dict[str, Any]:
        given = [{"series": name, "values": values} for name, values in series.items()]
        return {"interval": f"{self.every_s}s", "input_series": given, "alert_rule_test": looks}


def _rule(case: Case) -> Alert:
    (rule,) = [each for each in alerts() if each.name == case.alert and each.labels.items() == case.labels.items()]
    return rule


def _recordings(expr: str) -> list[Recording]:
    recorded = [rule for group in groups() for rule in group.rules if isinstance(rule, Recording)]
    return [rule for rule in recorded if re.search(rf"{re.escape(rule.name)}(?![\w:])", expr)]


def _labels(case: Case) -> dict[str, str]:
    labels: dict[str, str] = _rule(case).as_yaml()["labels"]
    return labels


def flat(*parts: tuple[float, int]) -> str:
    """Each value so many times."""
    return " ".join(f"{value}+0x{count - 1}" for value, count in parts)


def counter(*parts: tuple[float, int]) -> str:
    """Growing by each step so many times."""
    told, reached = [], 0.0
    for step, count in parts:
        told.append(f"{reached:g}+{step:g}x{count - 1}")
        reached += step * count
    return " ".join(told)


def detector(alert: str, name: str, **more: Any) -> Case:
    """Fires with a detector that does, after a while."""
    sick = f'stoker_detector_firing{{detector="{name}"}}'
    other = 'stoker_detector_firing{detector="nothing"}'
    return Case(alert, {sick: flat((0, 20), (1, 60), (0, 40))}, 75, 10, 110, {other: flat((1, 100))}, **more)


UP = 'stoker_engine_up{model="m"}'
RESTARTS = 'stoker_engine_restarts_total{model="m",reason="killed"}'
CANARY = "stoker_canary_ok"
WATCHDOG = 'up{job="stoker-watchdog"}'
LEAKS = 'stoker_detector_firing{detector="leak"}'
HOT = 'stoker_detector_firing{detector="thermal"}'
HITS = 'stoker_prefix_cache_tokens_total{outcome="hit",tier="ram"}'
MISSES = 'stoker_prefix_cache_tokens_total{outcome="miss",tier=""}'
LOSSES = 'stoker_prefix_cache_misses_total{reason="diverged"}'
COLLAPSE = {
    HITS: counter((9000, 300), (0, 60), (9000, 60)),
    MISSES: counter((1000, 300), (10_000, 60), (1000, 60)),
}


def _up(alert: str, series: str) -> Case:
    """Down for long enough fires, a restart of ten seconds does not."""
    return Case(
        alert, {series: flat((1, 20), (0, 20), (1, 20))}, 30, 10, 48, {series: flat((1, 29), (0, 2), (1, 9))}, 5
    )


def _once(alert: str, series: str, window: int, **more: Any) -> Case:
    """One event fires for a window, in intervals of 15 s."""
    told = {series: counter((0, 20), (1, 1), (0, 3 * window))}
    return Case(alert, told, 25, 10, 25 + 2 * window, {series: counter((0, 100))}, **more)


SYMPTOMS = (
    _up("StokerDown", WATCHDOG),
    _up("StokerEngineDown", UP),
    _up("StokerServiceDown", "stoker_service_up"),
    Case(
        "StokerRestartLoop",
        {RESTARTS: counter((0, 20), (1, 4), (0, 100))},
        26,
        10,
        90,
        {RESTARTS: counter((0, 20), (1, 2), (0, 100))},
    ),
    _once("StokerStalled", 'stoker_engine_restarts_total{model="m",reason="stalled"}', 60),
    Case(
        "StokerCanaryFailing",
        {CANARY: flat((1, 20), (0, 12), (1, 40))},
        25,
        10,
        34,
        {CANARY: flat((1, 100))},
    ),
    _once("StokerCanaryWrong", 'stoker_canary_requests_total{outcome="wrong"}', 240),
    Case(
        "StokerLeak",
        {
            LEAKS: flat((0, 20), (1, 40), (0, 40)),
            "stoker_memory_exhaustion_seconds": flat((9e9, 20), (7200, 40), (9e9, 40)),
        },
        50,
        10,
        90,
        {LEAKS: flat((1, 60)), "stoker_memory_exhaustion_seconds": flat((172_800, 60))},
    ),
    detector("StokerFragmentation", "fragmentation"),
    detector("StokerSwapGrowing", "swap"),
    detector("StokerDiskFull", "disk"),
    Case(
        "StokerQueueSaturated",
        {'stoker_requests_shed_total{reason="queue_full"}': counter((0, 20), (2, 40), (0, 60))},
        50,
        10,
        100,
        {
            'stoker_requests_shed_total{reason="overloaded"}': counter((2, 60)),
            'stoker_requests_shed_total{reason="queue_full"}': counter((0, 45), (2, 1), (0, 60)),
        },
    ),
    Case(
        "StokerSheddingForLong",
        {"stoker_shed_level": flat((0, 30), (1, 60), (0, 20))},
        70,
        20,
        100,
        {"stoker_shed_level": flat((0, 60), (1, 12), (0, 20))},
    ),
    Case(
        "StokerThrottled",
        {
            HOT: flat((0, 20), (1, 40), (0, 40)),
            "stoker_decode_slowdown_ratio": flat((1, 20), (1.6, 40), (1, 40)),
        },
        50,
        10,
        90,
        {HOT: flat((1, 60)), "stoker_decode_slowdown_ratio": flat((1.1, 60))},
    ),
    Case(
        "StokerPrefixHitCollapse",
        COLLAPSE | {LOSSES: counter((0, 300), (2, 60), (0, 60))},
        350,
        250,
        410,
        # New work.
        COLLAPSE | {'stoker_prefix_cache_misses_total{reason="cold"}': counter((0, 300), (2, 60), (0, 60))},
        every_s=60,
        nearly_too={
            HITS: counter((9000, 300), (7000, 60)),
            MISSES: counter((1000, 300), (3000, 60)),
            LOSSES: counter((0, 300), (2, 60)),
        },
    ),
    _once("StokerSpansDropped", "stoker_spans_dropped_total", 60),
    _once("StokerWebhooksDropped", 'stoker_webhook_deliveries_total{outcome="dropped"}', 240),
    _once("StokerSoakFailed", 'stoker_incidents_total{kind="soak"}', 240),
    Case("StokerDeadMansSwitch", {}, 10, None, None, {}),
)


def _traffic(objective: Objective, asked: float, bad: float, count: int) -> dict[str, list[tuple[float, int]]]:
    """So many requests an interval, a share of them bad."""
    if objective is AVAILABILITY:
        return {
            'stoker_requests_total{endpoint="/v1/messages",code="200"}': [(asked * (1 - bad), count)],
            'stoker_requests_total{endpoint="/v1/messages",code="500"}': [(asked * bad, count)],
        }
    return {
        "stoker_time_to_first_token_seconds_count": [(asked, count)],
        'stoker_time_to_first_token_seconds_bucket{le="10.0"}': [(asked * (1 - bad), count)],
    }


def _phases(objective: Objective, *phases: tuple[float, float, int]) -> Series:
    told: dict[str, list[tuple[float, int]]] = {}
    for phase in phases:
        for name, parts in _traffic(objective, *phase).items():
            told.setdefault(name, []).extend(parts)
    return {name: counter(*parts) for name, parts in told.items()}


def _seconds(window: str) -> int:
    return int(window[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[window[-1]]


def _burn(objective: Objective, slo: str, burn: Burn) -> Case:
    """All requests are bad for the whole long window, then none; nearly: half of what may be, all the time."""
    every_s = max(5, _seconds(burn.short) // 6)
    window, short = _seconds(burn.long) // every_s, _seconds(burn.short) // every_s
    well, sick = (100.0, 0.0, window), (100.0, 1.0, window)
    bound = burn.factor * objective.share
    return Case(
        objective.alert,
        _phases(objective, well, sick, (100.0, 0.0, 3 * short)),
        2 * window - 1,
        window - 1,
        2 * window + 2 * short,
        _phases(objective, (100.0, bound / 2, 3 * window)),
        every_s,
        {"slo": slo, "window": burn.long},
    )


def _few(case: Case, objective: Objective) -> Case:
    """Nearly, because hardly anybody asked."""
    few = FEWEST_REQUESTS / 2 / (case.during / 2 + 1)
    return Case(
        **{**case.__dict__, "nearly": _phases(objective, (few, 1.0, 2 * case.during)), "before": None, "after": None}
    )


def cases() -> Iterator[Case]:
    """At least one for each alert; burns also with hardly any traffic."""
    yield from SYMPTOMS
    for objective in (AVAILABILITY, FIRST_TOKEN):
        for slo, burns in BURNS.items():
            for burn in burns:
                case = _burn(objective, slo, burn)
                yield case
                yield _few(case, objective)

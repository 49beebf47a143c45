"""The rules are committed as they are made, name only what exists, and Prometheus' own tool finds that they work."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import promql_parser
import pytest
import yaml

from stoker.alerts import rules
from stoker.alerts.rule import Alert, Recording
from stoker.alerts.severity import MEANINGS, UNKNOWN
from stoker.dashboards.boards import BOARDS
from stoker.service.metrics import TTFT_BUCKETS, TTFT_OBJECTIVE_S
from stoker.watchdog.incidents import ENGINE_DEATH, JOURNAL, SERVICE_DEATH, SOAK
from stoker.watchdog.verdicts import DetectorName
from tests.alerts.rule_cases import cases
from tests.dashboards.test_boards import declared, metrics_in

CASES = list(cases())
RULES = [rule for group in rules.groups() for rule in group.rules]
ALERTS = list(rules.alerts())
ALERTMANAGER = rules.FILE.with_name("alertmanager.yml")


def tool(*command: str) -> str:
    """What one of Debian's tools says; fails with it."""
    if shutil.which(command[0]) is None:
        package = {"promtool": "prometheus", "amtool": "prometheus-alertmanager"}[command[0]]
        pytest.skip(f"{command[0]} is not installed (Debian: apt-get install {package})")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_committed_rules_are_those_that_are_made() -> None:
    assert rules.FILE.read_text(encoding="utf-8") == rules.text(), "run `stoker alerts rules --write alerts/rules.yml`"


def test_promtool_finds_nothing_to_complain_about() -> None:
    tool("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(rules.FILE))


@pytest.mark.timeout(180)
def test_every_alert_fires_when_it_should_not_when_it_need_not_and_recovers(tmp_path: Path) -> None:
    files = []
    for number, case in enumerate(CASES):
        judged = tmp_path / f"{number:02d}-rules.yml"
        judged.write_text(yaml.safe_dump(case.rules()))
        files.append(tmp_path / f"{number:02d}-{case.name}.yml")
        files[-1].write_text(yaml.safe_dump(case.as_yaml(str(judged))))
    tool("promtool", "test", "rules", *map(str, files))


@pytest.mark.timeout(180)
def test_a_cause_takes_its_alert_over(tmp_path: Path) -> None:
    files = []
    quick = {case.name: case for case in CASES if case.labels.get("window", "6m") == "6m"}
    for case in quick.values():
        judged = tmp_path / f"{case.name}-rules.yml"
        judged.write_text(yaml.safe_dump(case.rules()))
        for cause in case.causes:
            files.append(tmp_path / f"{case.name}-{cause}.yml")
            files[-1].write_text(yaml.safe_dump(case.taken_over(str(judged), cause)))
    tool("promtool", "test", "rules", *map(str, files))


def test_a_cause_is_judged_before_what_it_takes_over() -> None:
    for group in rules.groups():
        names = [rule.name for rule in group.rules]
        for rule in group.rules:
            if isinstance(rule, Alert):
                assert {*rule.causes} <= {alert.name for alert in ALERTS} - {rule.name}
                assert all(names.index(cause) < names.index(rule.name) for cause in rule.causes if cause in names)


def test_every_alert_has_a_case() -> None:
    assert {(case.alert, *case.labels.values()) for case in CASES} == {
        (alert.name, *alert.labels.values()) for alert in ALERTS
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_names_only_what_is_declared_or_recorded(rule: Alert | Recording) -> None:
    recorded = {each.name for each in RULES if isinstance(each, Recording)}
    named = set(metrics_in(promql_parser.parse(rule.as_yaml()["expr"]))) - {"ALERTS"}
    assert named <= declared() | recorded
    assert named or rule.name == "StokerDeadMansSwitch"


def test_every_recording_is_used() -> None:
    used = {name for rule in RULES for name in metrics_in(promql_parser.parse(rule.expr))}
    assert {rule.name for rule in RULES if isinstance(rule, Recording)} <= used


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_says_what_users_feel_and_where_to_look(alert: Alert) -> None:
    assert alert.name.startswith("Stoker")
    assert alert.summary.endswith(".") and alert.description.endswith(".")
    assert alert.board in {board.uid for board in BOARDS}


def test_the_first_tokens_objective_is_a_bucket() -> None:
    assert TTFT_OBJECTIVE_S in TTFT_BUCKETS


def test_every_kind_of_incident_has_a_meaning() -> None:
    assert set(MEANINGS) == {*(name.value for name in DetectorName), ENGINE_DEATH, SERVICE_DEATH, JOURNAL, SOAK}


def test_every_kind_of_incident_is_called_like_an_alert() -> None:
    known = {alert.name for alert in ALERTS} | {UNKNOWN.alert}
    assert {meaning.alert for meaning in MEANINGS.values()} <= known


def test_amtool_takes_the_configuration() -> None:
    assert "SUCCESS" in tool("amtool", "check-config", str(ALERTMANAGER))


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=StokerEngineDown", "severity=critical"), "stoker-page"),
        (("alertname=StokerLeak", "severity=warning"), "stoker-ticket"),
        (("alertname=StokerFragmentation", "severity=info"), "stoker-log"),
        (("alertname=StokerErrorBudgetBurn", "severity=critical", "slo=30d"), "stoker-page"),
        (("alertname=StokerErrorBudgetBurn", "severity=critical", "slo=72h"), "stoker-run"),
        (("alertname=StokerDeadMansSwitch", "severity=info"), "stoker-dead-mans-switch"),
        (("alertname=Other",), "stoker-ticket"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_an_alert_is_routed_by_its_severity(labels: tuple[str, ...], receiver: str) -> None:
    file = f"--config.file={ALERTMANAGER}"
    tool("amtool", "config", "routes", "test", file, f"--verify.receivers={receiver}", *labels)

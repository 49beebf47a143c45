"""The Compose stack holds together: what it mounts is there and valid, what points at something finds it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.config import Paths, load
from stoker.dashboards.boards import BOARDS
from stoker.dashboards.build import as_json
from tests.dashboards.stack import PROVISIONING, ROOT, lay_out, mounts, stack

SERVICES: dict[str, Any] = stack()["services"]
DATASOURCES: list[dict[str, Any]] = yaml.safe_load((PROVISIONING / "grafana" / "datasources.yaml").read_text())[
    "datasources"
]


def test_what_a_mac_and_what_linux_mounts_is_there_and_not_to_be_written() -> None:
    for profile in ("native", "container"):
        for service in stack(COMPOSE_PROFILES=profile)["services"].values():
            for mount in mounts(service):
                assert mount.file is None or (mount.file.exists() and mount.read_only), mount
                assert mount.file is not None or mount.source in stack()["volumes"]


def test_every_file_of_the_provisioning_is_mounted() -> None:
    mounted = {
        mount.file
        for profile in ("native", "container")
        for service in stack(COMPOSE_PROFILES=profile)["services"].values()
        for mount in mounts(service)
    }
    assert {file for file in PROVISIONING.rglob("*") if file.is_file()} <= mounted


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_comes_back_and_is_reached_from_this_machine_only(name: str) -> None:
    service = SERVICES[name]
    tag = service["image"].rpartition(":")[2]
    assert tag == "local" if "build" in service else tag.strip("v").replace(".", "").isdigit()
    assert service["restart"] == "unless-stopped"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    if "build" in service:
        assert "HEALTHCHECK" in (ROOT / "Dockerfile").read_text()
    else:
        assert service["healthcheck"]["test"]


def test_the_image_of_stoker_runs_as_nobody_special_and_fast() -> None:
    steps = (ROOT / "Dockerfile").read_text().splitlines()
    assert "USER stoker" in steps
    assert any("libopenblas0-pthread" in step for step in steps)
    assert any("--require-hashes -r requirements.lock" in step for step in steps)


def test_grafana_finds_what_its_boards_ask_for() -> None:
    provided = {source["type"] for source in DATASOURCES}
    for board in BOARDS:
        variables = json.loads(as_json(board))["templating"]["list"]
        assert {each["query"] for each in variables if each["type"] == "datasource"} <= provided


def test_an_exemplar_leads_to_the_traces_that_are_provided() -> None:
    uids = {source["uid"]: source["type"] for source in DATASOURCES}
    (prometheus,) = (source for source in DATASOURCES if source["type"] == "prometheus")
    (destination,) = prometheus["jsonData"]["exemplarTraceIdDestinations"]
    assert uids[destination["datasourceUid"]] == "tempo"
    assert prometheus["jsonData"]["timeInterval"] == prometheus_settings()["global"]["scrape_interval"]


def prometheus_settings() -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load((PROVISIONING / "prometheus.yml").read_text())
    return settings


@pytest.mark.parametrize("source", DATASOURCES, ids=lambda source: source["uid"])
def test_a_datasource_is_a_service_of_the_stack(source: dict[str, Any]) -> None:
    host = source["url"].removeprefix("http://").partition(":")[0]
    assert host in SERVICES


def test_the_home_board_and_the_folder_of_boards_are_mounted() -> None:
    targets = {mount.target: mount.file for mount in mounts(SERVICES["grafana"])}
    (provider,) = yaml.safe_load((PROVISIONING / "grafana" / "boards.yaml").read_text())["providers"]
    folder = targets[provider["options"]["path"]]
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert folder is not None
    assert str(home.parent) == provider["options"]["path"]
    assert (folder / home.name).is_file()


def test_stoker_in_its_container_is_told_what_it_can_use(tmp_path: Path) -> None:
    settings = load(PROVISIONING / "stoker.toml", Paths(tmp_path))
    assert settings.telemetry.otlp_endpoint is not None
    host, _, port = settings.telemetry.otlp_endpoint.removeprefix("http://").partition(":")
    receivers = yaml.safe_load((PROVISIONING / "tempo.yaml").read_text())["distributor"]["receivers"]
    assert host in SERVICES
    assert receivers["otlp"]["protocols"][settings.telemetry.otlp_protocol]["endpoint"].endswith(f":{port}")


def test_targets_are_the_ports_that_stoker_listens_on_by_default() -> None:
    defaults = tomllib.loads((ROOT / "stoker.example.toml").read_text())
    ports = {"stoker-service": defaults["server"]["port"], "stoker-watchdog": defaults["watchdog"]["port"]}
    for file in (PROVISIONING / "targets").iterdir():
        groups = yaml.safe_load(file.read_text())
        told = {
            group["labels"]["job"]: int(target.rpartition(":")[2]) for group in groups for target in group["targets"]
        }
        assert told == ports, file


def test_prometheus_tells_the_alertmanager_of_the_stack() -> None:
    (managers,) = prometheus_settings()["alerting"]["alertmanagers"]
    (targets,) = (each["targets"] for each in managers["static_configs"])
    assert [target.partition(":")[0] for target in targets] == ["alertmanager"]


@pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed (Debian: prometheus-alertmanager)")
def test_amtool_takes_the_configuration(tmp_path: Path) -> None:
    lay_out("alertmanager", "/etc/alertmanager", tmp_path)
    done = subprocess.run(
        ["amtool", "check-config", str(tmp_path / "alertmanager.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    lay_out("prometheus", "/etc/prometheus", tmp_path)
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

"""Debian's Prometheus and Alertmanager on loopback with the committed files, which notify a receiver of a test's."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from stoker.alerts.rules import FILE
from tests.dashboards.prometheus_server import ask, running_prometheus, until_ready
from tests.dashboards.stack import PROVISIONING

DEADLINE_S = 30.0
SHORTEST_RANGE_S = 4.0
QUICK_S = 0.5
"""Between two scrapes, and two judgements, of a test that cannot wait for the shipped ones."""
SCRAPES = 3
"""After so many of each target there is something to compare with."""
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@contextlib.contextmanager
def notifying(folder: Path, targets: list[tuple[str, str]], hooks: str, speed: float = 1.0) -> Iterator[None]:
    """Scrape `targets` (job, `host:port`) and notify `hooks` for as long as the block runs.

    With a `speed` other than 1 every range, wait and interval is that much shorter than shipped.
    """
    if shutil.which("prometheus-alertmanager") is None:
        pytest.skip("prometheus-alertmanager is not installed (Debian: apt-get install prometheus-alertmanager)")
    with alertmanager(folder, hooks, speed) as address:
        (folder / "rules.yml").write_text(quicker_rules(FILE.read_text(encoding="utf-8"), speed))
        groups = [{"targets": [target], "labels": {"job": job}} for job, target in targets]
        (folder / "targets.yml").write_text(json.dumps(groups))
        settings = yaml.safe_load((PROVISIONING / "prometheus.yml").read_text(encoding="utf-8"))
        if speed != 1:
            for key in ("scrape_interval", "scrape_timeout", "evaluation_interval"):
                settings["global"][key] = f"{QUICK_S * 1000:.0f}ms"
        settings["rule_files"] = ["rules.yml"]
        settings["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [address]}]}]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        with running_prometheus(folder) as url:
            _until_scraped(url, len(targets))
            yield


@contextlib.contextmanager
def alertmanager(folder: Path, hooks: str, speed: float) -> Iterator[str]:
    """Yields the `host:port` of one with the committed routes."""
    text = FILE.with_name("alertmanager.yml").read_text(encoding="utf-8").replace("http://127.0.0.1:9095", hooks)
    (folder / "alertmanager.yml").write_text(quicker_routes(text, speed))
    (folder / "alertmanager.token").write_text("t0ken\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus-alertmanager",
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        "--log.level=error",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_ready(f"http://{address}", "Alertmanager")
        yield address
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def quicker_rules(text: str, speed: float) -> str:
    """Ranges and waits that much shorter; a range still spans some scrapes."""
    if speed == 1:
        return text

    def shorter(found: re.Match[str]) -> str:
        seconds = max(SHORTEST_RANGE_S, _seconds(found[1]) / speed)
        return f"[{seconds * 1000:.0f}ms{':1s' if found[2] else ''}]"

    text = re.sub(r"\[(\d+[smhd])(:\d+s)?\]", shorter, text)
    return re.sub(r"for: (\d+[smhd])", lambda found: f"for: {_seconds(found[1]) / speed * 1000:.0f}ms", text)


def quicker_routes(text: str, speed: float) -> str:
    """Grouping that much shorter; what is repeated is so as seldom as shipped, or nothing would arrive once."""
    if speed == 1:
        return text

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}: {max(50.0, _seconds(found[2]) / speed * 1000):.0f}ms"

    return re.sub(r"(group_wait|group_interval): (\d+[smhd])", shorter, text)


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * _UNITS_S[duration[-1]]


def _until_scraped(url: str, targets: int) -> None:
    """Prometheus sees no increase in what it has not seen before."""
    deadline = time.monotonic() + DEADLINE_S
    while not ask(url, f"count(count_over_time(up[5m]) >= {SCRAPES}) == {targets}"):
        assert time.monotonic() < deadline, "Prometheus does not scrape"
        time.sleep(0.1)

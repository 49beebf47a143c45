"""Debian's Prometheus on loopback, scraping a tree of a test's."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.stack import lay_out

DEADLINE_S = 30.0
NOBODY = "127.0.0.1:9"
"""Discards what it is sent, or refuses it."""
SCRAPE_S = 1


@contextlib.contextmanager
def prometheus_scraping(
    folder: Path, targets: dict[str, str], scrape_s: int | None = SCRAPE_S, alertmanager: str = NOBODY
) -> Iterator[str]:
    """Yields its address; `targets` are `host:port` by job.

    It reads the files that the Compose stack mounts, but for whom it asks and tells, and for the intervals unless
    `scrape_s` is None.
    """
    lay_out("prometheus", "/etc/prometheus", folder)
    groups = [{"targets": [target], "labels": {"job": job}} for job, target in targets.items()]
    (folder / "targets.yml").write_text(json.dumps(groups))  # JSON is YAML
    settings = (folder / "prometheus.yml").read_text().replace("alertmanager:9093", alertmanager)
    if scrape_s is not None:
        settings = re.sub(r"(interval|timeout): \d+s", rf"\1: {scrape_s}s", settings)
    (folder / "prometheus.yml").write_text(settings)
    with running_prometheus(folder) as url:
        yield url


@contextlib.contextmanager
def running_prometheus(folder: Path) -> Iterator[str]:
    """Yields the address of one with the folder's `prometheus.yml` and `data`."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        until_ready(url, "Prometheus")
        yield url
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def ask(url: str, query: str, at: float | None = None) -> list[Any]:
    """The series that answer a query, now or then."""
    return _answer(url, "query", {"query": query, "time": at or time.time()})


def ask_range(url: str, query: str, start: float, end: float, step: float) -> list[Any]:
    """The series that answer a query at each step."""
    return _answer(url, "query_range", {"query": query, "start": start, "end": end, "step": step})


def exemplars(url: str, query: str, start: float, end: float) -> list[Any]:
    """The exemplars of the series that a query is made of."""
    times = {"query": query, "start": start, "end": end}
    with urllib.request.urlopen(f"{url}/api/v1/query_exemplars?{urllib.parse.urlencode(times)}") as response:
        result: list[Any] = json.load(response)["data"]
        return result


def _answer(url: str, path: str, parameters: dict[str, Any]) -> list[Any]:
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}") as response:
        result: list[Any] = json.load(response)["data"]["result"]
        return result


def until_ready(url: str, what: str) -> None:
    """Prometheus and Alertmanager say it alike."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready") as response:
            if response.status == 200:
                return
        assert time.monotonic() < deadline, f"{what} does not become ready"
        time.sleep(0.1)

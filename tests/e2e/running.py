"""A whole tree for tests: `stoker serve` as a process, in a home of its own, on ports that the system chose."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from prometheus_client.parser import text_string_to_metric_families

from stoker.config import Paths
from stoker.watchdog.client import WatchdogClient
from stoker.watchdog.status import EngineStatus, Status

STOKER = Path(sys.executable).with_name("stoker")
DEADLINE_S = 30.0
POLL_S = 0.02

SIMULATED = """
[engine]
kind = "simulated"
heartbeat_s = 0.05
[server]
port = 0
[watchdog]
port = 0
"""


def stoker(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a `stoker` command to its end."""
    return subprocess.run(
        [STOKER, *arguments],
        env={**os.environ, "STOKER_HOME": str(home), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


class RunningTree:
    """`stoker serve` on `home`, once `start` is called; `config` is the text of its stoker.toml."""

    def __init__(self, home: Path, config: str = SIMULATED) -> None:
        self.home = home
        self.paths = Paths(home)
        home.mkdir(parents=True, exist_ok=True)
        self.paths.config.write_text(config, encoding="utf-8")
        self._log = home / "serve.log"

    def start(self) -> None:
        """Start it, and wait for its word that it is ready."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [STOKER, "serve"],
                env={**os.environ, "STOKER_HOME": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline().decode()
        if "ready" not in self.greeting:
            raise AssertionError(f"stoker serve ended with {self.wait()}: {self._log.read_text()}")
        self.client = WatchdogClient(self.paths)

    @property
    def api(self) -> str:
        return self.client.serving.api

    def log(self) -> list[dict[str, Any]]:
        """Everything that the tree has logged so far."""
        return [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]

    async def until_logged(self, words: str) -> None:
        """Wait for a line of the log."""
        await eventually(lambda: words in self._log.read_text(encoding="utf-8"))

    def engine(self) -> EngineStatus:
        """The one engine, now."""
        (engine,) = self.client.status().engines
        return engine

    def until(self, condition: Callable[[Status], bool]) -> Status:
        """The first status that meets the condition."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition(status := self.client.status()):
            assert time.monotonic() < deadline, status
            time.sleep(POLL_S)
        return status

    def until_ready(self, epoch: int) -> EngineStatus:
        """The engine in this incarnation, once the whole tree is ready with it."""
        status = self.until(lambda status: status.ready and status.engines[0].epoch == epoch)
        return status.engines[0]

    def pids(self) -> list[int]:
        """The watchdog and its children."""
        return [self.process.pid, *(child.pid for child in psutil.Process(self.process.pid).children(recursive=True))]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal the watchdog and wait for its end; returns its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def get(url: str) -> tuple[int, Any]:
    """Status code and JSON body."""
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def scraped(url: str) -> str:
    """What `/metrics` of a service or a watchdog answers to Prometheus."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=DEADLINE_S) as response:
        return str(response.read().decode())


def exported(url: str) -> set[str]:
    """The names of all metrics there, as a query has them."""
    families = text_string_to_metric_families(scraped(url))
    return {family.name + ("_total" if family.type == "counter" else "") for family in families}


def gone(pid: int) -> bool:
    """It has ended; where nobody collects orphans, a zombie counts."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until_gone(*pids: int) -> None:
    """Wait for the end of processes that are not our children."""
    await eventually(lambda: all(map(gone, pids)))


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something outside this process that has no event."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)

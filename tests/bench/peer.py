"""The server to compare with: `mlx_lm.server` as it comes, on the same model folder and with OpenBLAS as our engine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from stoker.engine.blas import preload_environment

START_DEADLINE_S = 60.0


class PeerServer:
    """One process with mlx-lm's own defaults; it answers once it is made."""

    def __init__(self, model: Path) -> None:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mlx_lm.server", "--model", str(model), "--port", str(port)],
            env={**preload_environment(os.environ), "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait_until_it_answers()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._answers():
            assert self._process.poll() is None, f"mlx_lm.server ended with {self._process.returncode}"
            assert time.monotonic() < deadline, "mlx_lm.server does not answer"
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

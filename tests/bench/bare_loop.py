"""mlx-lm's batch generator in a process of its own (`bare_mlx_lm`), to compare with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from stoker.engine.blas import preload_environment


class BareLoop:
    """One process, which takes one batch of prompts after the other."""

    def __init__(self, model: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.bare_mlx_lm", str(model)],
            env={**os.environ, **preload_environment(os.environ)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tokens_per_second(self, prompts: list[list[int]], max_tokens: int) -> float:
        """Of prompts of token ids, each going on for `max_tokens`, whatever it says."""
        answer = self._ask({"prompts": prompts, "max_tokens": max_tokens})
        return float(answer["tokens"] / answer["seconds"])

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=30)

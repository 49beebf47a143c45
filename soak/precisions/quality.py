"""What precisions cost, from the engine's child process: this one never loads MLX."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...engine.blas import preload_environment
from ..errors import QualityUnknown


class Quality(msgspec.Struct, frozen=True):
    """Perplexity on a small text; mean divergence from the reference in nats; share of equal likeliest tokens."""

    perplexity: float
    divergence: float
    agreement: float


async def qualities(reference: Path, folders: Sequence[Path]) -> list[Quality]:
    """In the order of `folders`. Raises `QualityUnknown`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "stoker.engine.quality",
        str(reference),
        *map(str, folders),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=preload_environment(os.environ),
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        last = (err.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise QualityUnknown(f"the quality of {reference.name} was not measured (exit {process.returncode}): {last}")
    return [msgspec.json.decode(line, type=Quality) for line in out.splitlines()]

"""`stoker watch record`: the samples of a running tree, as lines of JSON for `stoker watch replay`."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from ..config import Paths

POLL_S = 10.0
"""Well within the time for which the watchdog keeps its last samples."""


def record(
    out: Annotated[Path | None, typer.Option("--out", help="File to append to; default: standard output.")] = None,
    for_s: Annotated[float | None, typer.Option("--for", help="Seconds; default: until Ctrl-C.")] = None,
) -> None:
    """Write down the samples of the running tree."""
    with contextlib.suppress(KeyboardInterrupt):
        if out is None:
            _record(sys.stdout.buffer, for_s)
            return
        with out.open("ab") as file:
            _record(file, for_s)


def _record(file: BinaryIO, for_s: float | None) -> None:
    from .client import WatchdogClient
    from .samples import decode, encode

    client = WatchdogClient(Paths.from_environment())
    ends_at = None if for_s is None else time.monotonic() + for_s
    last = 0.0
    while True:
        for sample in decode(client.samples().splitlines(keepends=True), "the watchdog's answer"):
            if sample.wall > last:
                last = sample.wall
                file.write(encode(sample) + b"\n")
        file.flush()
        left_s = POLL_S if ends_at is None else ends_at - time.monotonic()
        if left_s <= 0:
            return
        time.sleep(min(POLL_S, left_s))

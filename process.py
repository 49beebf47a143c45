"""What each child process does at its door: read its settings, log as JSON lines, and end when its parent does.

The parent holds the write end of a pipe that is the child's standard input. When the parent dies, however it dies,
the pipe closes and the child ends: this works on every Unix, where `PR_SET_PDEATHSIG` is Linux alone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TextIO, TypeVar, cast

import structlog

from .config import Section

# sysexits.h: EX_CONFIG. A child that ends with it will not get better by being restarted.
EXIT_UNUSABLE = 78

S = TypeVar("S", bound=Section)


class LineFile(Protocol):
    """As much of a text file as logging needs."""

    def write(self, line: str, /) -> int: ...

    def flush(self) -> None: ...


class _LinesWhileTheyAreRead:
    """Standard error, until nobody reads it: with its parent gone a child still finishes what it has promised."""

    def write(self, line: str, /) -> int:
        with contextlib.suppress(BrokenPipeError):
            return sys.stderr.write(line)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            sys.stderr.flush()


def read_settings(kind: type[S], argv: list[str]) -> S:
    """The settings whose JSON file is the only command-line argument."""
    (path,) = argv
    return kind.model_validate_json(Path(path).read_bytes())


def configure_logging(source: str, out: LineFile | None = None) -> None:
    """One JSON object a line on `out` or standard error, each with its process; stacks on fatal signals and SIGUSR1."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, out or _LinesWhileTheyAreRead())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(source=source)
    faulthandler.enable()
    # Works while every thread is stuck in native code: the handler needs neither the interpreter nor its lock.
    faulthandler.register(signal.SIGUSR1, all_threads=True)


def end_with_parent(on_parent_gone: Callable[[], None]) -> None:
    """Call `on_parent_gone` once, from a thread of its own, when standard input closes."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        on_parent_gone()

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()

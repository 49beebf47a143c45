"""How a long step tells a person that it is still going: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as RichProgress

LINE_INTERVAL_S = 5.0


class Progress(Protocol):
    """Hears about one step at a time: `start`, any number of `advance`, then `done`, also when the step failed.

    `done` without a step does nothing.
    """

    def start(self, description: str, total_bytes: int | None) -> None:
        """A step begins; `total_bytes` is None when its size is unknown."""

    def advance(self, byte_count: int) -> None:
        """So many bytes more are done."""

    def done(self) -> None:
        """The step is over."""


def progress_on(console: Console) -> Progress:
    """What fits the console."""
    return BarProgress(console) if console.is_terminal else LineProgress(console)


class BarProgress:
    """A bar that redraws itself."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: RichProgress | None = None

    def start(self, description: str, total_bytes: int | None) -> None:
        text = TextColumn("{task.description}")
        if total_bytes is None:
            self._bar = RichProgress(SpinnerColumn(), text, console=self._console)
        else:
            sizes = DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
            self._bar = RichProgress(text, BarColumn(), *sizes, console=self._console)
        self._bar.add_task(description, total=total_bytes)
        self._bar.start()

    def advance(self, byte_count: int) -> None:
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], byte_count)

    def done(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class LineProgress:
    """Plain lines, few enough for a log."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._description = ""
        self._total: int | None = None
        self._seen = 0
        self._said_at = 0.0

    def start(self, description: str, total_bytes: int | None) -> None:
        self._description, self._total, self._seen = description, total_bytes, 0
        self._say(description if total_bytes is None else f"{description} ({total_bytes / 1e6:.0f} MB)")

    def advance(self, byte_count: int) -> None:
        self._seen += byte_count
        if self._clock() - self._said_at >= LINE_INTERVAL_S:
            of = "" if self._total is None else f" of {self._total / 1e6:.0f}"
            self._say(f"{self._description}: {self._seen / 1e6:.0f}{of} MB")

    def done(self) -> None:
        """Nothing to say: the next step or the prompt says that this one is over."""

    def _say(self, line: str) -> None:
        self._said_at = self._clock()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

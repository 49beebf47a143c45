"""Progress is a bar on a terminal and a few lines in a log."""

from __future__ import annotations

import io

from rich.console import Console

from stoker.engine.progress import BarProgress, LineProgress, progress_on


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_gets_a_bar_and_a_log_gets_lines() -> None:
    assert isinstance(progress_on(Console(file=io.StringIO(), force_terminal=True)), BarProgress)
    assert isinstance(progress_on(Console(file=io.StringIO())), LineProgress)


def test_a_log_gets_a_line_at_the_start_and_then_one_every_few_seconds() -> None:
    output, clock = io.StringIO(), Clock()
    progress = LineProgress(Console(file=output), clock)
    progress.start("fetching [x]", 8_000_000)
    progress.advance(1_000_000)
    clock.now += 6
    progress.advance(1_000_000)
    progress.advance(1_000_000)
    progress.done()
    progress.start("converting", None)
    assert output.getvalue().splitlines() == ["fetching [x] (8 MB)", "fetching [x]: 2 of 8 MB", "converting"]


def test_a_bar_shows_the_step_and_is_gone_from_memory_when_it_is_done() -> None:
    output = io.StringIO()
    progress = BarProgress(Console(file=output, force_terminal=True, width=120))
    progress.start("fetching", 2_000_000)
    progress.advance(1_000_000)
    progress.done()
    progress.done()
    progress.start("converting", None)
    progress.done()
    assert "fetching" in output.getvalue()
    assert "1.0/2.0 MB" in output.getvalue()
    assert "converting" in output.getvalue()

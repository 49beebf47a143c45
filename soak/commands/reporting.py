"""What the commands share: where a report goes, and how a person sees that a measurement still goes on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ...watchdog.commands.options import print_json

if TYPE_CHECKING:
    from ..bench.report import Report

T = TypeVar("T")

Files = Annotated[
    list[Path] | None,
    typer.Option("--report", help="Also write it there: .html, .md or .json. May be given several times."),
]


def check_files(files: list[Path] | None) -> None:
    """Before minutes are spent on measuring. Raises `typer.BadParameter`."""
    for file in files or ():
        if file.suffix not in _WRITERS:
            raise typer.BadParameter(f"{file.name} says no format; end it with {', '.join(_WRITERS)}")
        if not file.absolute().parent.is_dir():
            raise typer.BadParameter(f"there is no folder {file.absolute().parent}")


def deliver(report: Report, files: list[Path] | None, as_json: bool) -> None:
    """To standard output, and into files."""
    from rich.console import Console

    from ..bench.text import show

    for file in files or ():
        file.write_text(_WRITERS[file.suffix](report), encoding="utf-8")
        typer.echo(f"written to {file}", err=True)
    if as_json:
        print_json(dataclasses.asdict(report))
    else:
        show(report, Console())


def _json(report: Report) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(report)).decode() + "\n"


def _markdown(report: Report) -> str:
    from ..bench.text import markdown

    return markdown(report)


def _html(report: Report) -> str:
    from ..bench.page import html

    return html(report)


_WRITERS: dict[str, Callable[[Report], str]] = {".html": _html, ".md": _markdown, ".json": _json}


def run(work: Coroutine[Any, Any, T]) -> T:
    """To its end. SIGTERM ends it as Ctrl-C does: what it has started must not be left running."""
    import uvloop

    async def until_told() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return uvloop.run(until_told())
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None


@contextlib.contextmanager
def progress(sittings: int, seconds: float) -> Iterator[Callable[[str], None]]:
    """Call what it yields before each sitting: a bar with the time that is left, or a line where there is no terminal.

    `sittings` may be too many: a sweep that finds its target full ends early.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        began = time.monotonic()
        yield lambda what: typer.echo(f"{time.monotonic() - began:5.0f} s  {what}", err=True)
        return
    at_most = TextColumn(f"of at most about {sittings * seconds / 60:.0f} min")
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), at_most
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("warming up", total=sittings)
        begun = 0

        def begins(what: str) -> None:
            nonlocal begun
            bar.update(task, description=what, completed=begun)
            begun += 1

        yield begins

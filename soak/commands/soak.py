"""`stoker soak …`: begin or go on with a run, and what runs came to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ...config import Paths, duration_s
from ...watchdog.commands.options import AsJson, Key, print_json

if TYPE_CHECKING:
    from ..intervals import Interval
    from ..keeping import Keeping, Run

app = typer.Typer(help="Hours or days of load on this tree, and a verdict.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The run's id, the beginning of it, or `last`.")]
T = TypeVar("T")


def _seconds(text: str) -> float:
    try:
        return float(duration_s(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@app.command("run")
def run_soak(
    *,
    duration: Annotated[str, typer.Option(help="Of load: 10m, 72h, 3d.")] = "72h",
    workload: Annotated[str, typer.Option(help="What is asked.")] = "mixed",
    scale: Annotated[float, typer.Option(min=0.001, max=10, help="Share of the workload's lengths.")] = 1.0,
    streams: Annotated[int | None, typer.Option(min=1, help="Conversations at once.")] = None,
    chaos: Annotated[
        list[str] | None,
        typer.Option(
            help="What goes wrong on purpose, as kill:1m or stop:2x; kill, stop, leak, disk_full, collector_down."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the load and of the chaos.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that was cut.")] = False,
    scheduled: Annotated[bool, typer.Option("--scheduled", hidden=True)] = False,
    even_when_busy: Annotated[bool, typer.Option("--even-when-busy", hidden=True)] = False,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Ask without pause, break things if told to, and judge; exit code 0 when every gate was kept, 1 when not."""
    from ..chaos import rule
    from ..run import passed
    from ..runner import Runner, Wish, alone
    from ..show import shown_progress
    from ..workloads import workload as named

    named(workload)
    wish = Wish(
        _seconds(duration), workload, scale, seed, streams, tuple(map(rule, chaos or ())), scheduled, even_when_busy
    )
    paths = Paths.from_environment()
    with shown_progress(as_json) as on_progress:
        runner = Runner(paths, key, on_progress)
        with alone(paths):
            run, intervals = asyncio.run(runner.resume() if resume else runner.begin(wish))
    _conclude(paths, run, intervals, as_json)
    raise typer.Exit(0 if passed(run) else 1)


def _conclude(paths: Paths, run: Run, intervals: list[Interval], as_json: bool) -> None:
    """Say what it came to, and leave a report where others look for it."""
    from rich.console import Console

    from ..report.files import write
    from ..show import show_run

    written = write(paths.reports, run, intervals) if run.result is not None else []
    if as_json:
        print_json(run)
        return
    show_run(run, Console())
    for file in written:
        typer.echo(f"report: {file}")


@app.command("list")
def list_runs(as_json: AsJson = False) -> None:
    """List the runs, oldest first."""
    from rich.console import Console

    from ..show import table_of_runs

    runs = _kept(lambda keeping: keeping.runs())
    if as_json:
        print_json(runs)
    else:
        Console().print(table_of_runs(runs) if runs else "no soak runs yet; begin one with `stoker soak run`")


@app.command()
def show(name: Name = "last", as_json: AsJson = False) -> None:
    """Show a run as it stands: its gates, its numbers, what went wrong; exit code as that of `run`."""
    from rich.console import Console

    from ..run import passed
    from ..show import show_run

    run, _ = _found(name)
    if as_json:
        print_json(run)
    else:
        show_run(run, Console())
    raise typer.Exit(0 if passed(run) else 1)


@app.command()
def report(name: Name = "last", as_json: AsJson = False) -> None:
    """Write a run's report anew, as one HTML file that needs no network and as Markdown, and say where."""
    from ..report.files import write

    run, intervals = _found(name)
    written = write(Paths.from_environment().reports, run, intervals)
    if as_json:
        print_json([str(file) for file in written])
    else:
        typer.echo("\n".join(map(str, written)))


@app.command()
def compare(one: Name, other: Name, as_json: AsJson = False) -> None:
    """Show two runs side by side."""
    from rich.console import Console

    from ..report.numbers import rows
    from ..show import table_of_rows

    runs = [_found(name)[0] for name in (one, other)]
    ids = [run.id for run in runs]
    if as_json:
        print_json([{"what": what, **dict(zip(ids, values, strict=True))} for what, *values in rows(runs)])
    else:
        Console().print(table_of_rows(ids, rows(runs)))


def _found(name: str) -> tuple[Run, list[Interval]]:
    """A run with its intervals; what one that is under way comes to so far is judged here."""

    async def find(keeping: Keeping) -> tuple[Run, list[Interval]]:
        from msgspec.structs import replace

        from ..run import judged

        run = await keeping.run(name)
        intervals = await keeping.intervals(run.id)
        if run.result is None and intervals:
            run = replace(run, result=judged(run, intervals))
        return run, intervals

    return _kept(find)


def _kept(ask: Callable[[Keeping], Coroutine[Any, Any, T]]) -> T:
    """What is kept of runs; the tree need not run for it."""
    from ...watchdog.commands.status import journal_url
    from ..keeping import Keeping

    async def asked() -> T:
        async with contextlib.aclosing(Keeping(journal_url(Paths.from_environment()))) as keeping:
            return await ask(keeping)

    return asyncio.run(asked())

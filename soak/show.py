"""Runs for people at a terminal: progress with the gates as they stand, a verdict, and tables."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..watchdog.soak_news import GateOutcome
from .gates import Verdict
from .keeping import Run
from .report.numbers import rows_of, span
from .report.words import moment, title
from .run import Progress

STYLES = {GateOutcome.PASS: "green", GateOutcome.FAIL: "bold red", GateOutcome.INCONCLUSIVE: "yellow"}
SAID_EVERY_S = 60.0
"""Where nobody looks at a terminal, a line a minute is enough."""


@contextlib.contextmanager
def shown_progress(as_json: bool) -> Iterator[Callable[[Progress], None]]:
    """Who hears of each interval: a view that stays, lines for a log, or lines of JSON."""
    console = Console(stderr=True)
    if as_json:
        yield lambda progress: typer.echo(msgspec.json.encode(progress).decode(), err=True)
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda progress: live.update(view(progress), refresh=True)
    else:
        yield _Lines(console)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._said_at = float("-inf")

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._said_at >= SAID_EVERY_S:
            self._said_at = time.monotonic()
            verdict = progress.result.verdict
            for line in (f"{_head(progress)}: {verdict.outcome.value}", *(f"  {each}" for each in verdict.reasons)):
                self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _head(progress: Progress) -> str:
    left = f"{span(progress.left_s)} left" if progress.left_s > 0 else "over"
    return f"soak run {progress.run}: {span(progress.done_s)} done, {left}, {progress.requests} requests"


def view(progress: Progress) -> RenderableType:
    """A run as it stands."""
    bar = ProgressBar(total=progress.done_s + progress.left_s, completed=progress.done_s, width=60)
    return Group(Text(_head(progress)), bar, table_of_gates(progress.result.verdict))


def table_of_gates(verdict: Verdict) -> Table:
    table = Table("gate", "", "", box=None, pad_edge=False)
    for gate in verdict.gates:
        table.add_row(gate.gate, Text(gate.outcome.value, STYLES[gate.outcome]), Text(gate.sentence))
    return table


def show_run(run: Run, console: Console) -> None:
    """What it is, its gates, its numbers, and what went wrong."""
    console.print(f"{title(run)}, begun {moment(run.began_at)}", highlight=False)
    if run.result is None:
        console.print("nothing is known of it yet")
        return
    verdict = run.result.verdict
    console.print(table_of_rows(["value"], rows_of(run)))
    for explained in run.result.summary.incidents:
        incident = explained.incident
        why = f", explained by chaos `{explained.by}`" if explained.by else ""
        console.print(Text(f"{moment(incident.opened_at)}  {incident.kind}: {incident.summary}{why}"))
    console.print(table_of_gates(verdict))
    console.print(Text(f"verdict: {verdict.outcome.value}", STYLES[verdict.outcome]))


def table_of_runs(runs: Sequence[Run]) -> Table:
    table = Table("run", "begun", "duration", "workload", "chaos", "state", "verdict", box=None, pad_edge=False)
    for run in runs:
        plan = run.plan
        outcome = None if run.result is None else run.result.verdict.outcome
        told = Text("") if outcome is None else Text(outcome.value, STYLES[outcome])
        chaos = " ".join(map(str, plan.chaos))
        table.add_row(run.id, moment(run.began_at), span(plan.duration_s), plan.workload, chaos, run.state, told)
    return table


def table_of_rows(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table("", *names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    return table

"""`stoker dashboards build` and `check`; exit code 1 when a query fails or is empty without a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Build Grafana's boards, and check them against a live Prometheus.", no_args_is_help=True)

DEFAULT_RANGE_MIN = 15.0


@app.command()
def build(
    folder: Annotated[Path | None, typer.Option(help="Where to write them; default: the installed ones.")] = None,
) -> None:
    """Write the boards as JSON that Grafana loads."""
    from .build import FOLDER
    from .build import build as build_boards

    for path in build_boards(folder or FOLDER):
        typer.echo(path)


@app.command()
def check(
    prometheus: Annotated[str, typer.Option(help="Its address.")] = "http://127.0.0.1:9090",
    minutes: Annotated[float, typer.Option(min=1, help="Of the time range that is looked at.")] = DEFAULT_RANGE_MIN,
    scrape_s: Annotated[float, typer.Option(min=0.1, help="How often it scrapes.")] = 15.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask every query of every board, and list those that fail or have no data."""
    import dataclasses
    import json

    from rich.console import Console
    from rich.progress import track

    from .boards import BOARDS
    from .check import Outcome, Prometheus, PrometheusUnreachable, queries
    from .check import check as check_boards

    # As Grafana: four scrapes, so that a rate survives one that is missed.
    server = Prometheus(prometheus, minutes * 60, max(4 * scrape_s, 1))
    total = sum(1 for _ in queries(BOARDS))
    try:
        answers = list(
            track(check_boards(BOARDS, server), "asking", total, console=Console(stderr=True), transient=True)
        )
    except PrometheusUnreachable as error:
        typer.echo(f"stoker: {error}", err=True)
        raise typer.Exit(2) from error
    wrong = [answer for answer in answers if answer.outcome in (Outcome.EMPTY, Outcome.FAILED)]
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(answer) for answer in answers], indent=2))
    else:
        for answer in answers:
            if answer.outcome is not Outcome.DATA:
                where = f"{answer.asked.board} / {answer.asked.place}"
                typer.echo(f"{answer.outcome}: {where}: {answer.why or answer.asked.expr}")
        typer.echo(f"{total} queries, {total - len(wrong)} well, {len(wrong)} empty or failing")
    raise typer.Exit(1 if wrong else 0)

"""`stoker watch …`: samples recorded, and recorded and generated ones through the detectors and the policy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import recording
from .options import AsJson, aside, print_json

if TYPE_CHECKING:
    from ..evaluation.judge import Half, Outcome
    from ..replay import Event

app = typer.Typer(help="What the detectors and the policy make of samples.", no_args_is_help=True)


app.command("record")(recording.record)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A recording, as docs/samples.md describes it.")], as_json: AsJson = False
) -> None:
    """Run recorded samples through the detectors and the policy, and print a time line."""
    import msgspec

    from ..replay import replay as replayed
    from ..samples import read

    for event in replayed(read(file)):
        typer.echo(msgspec.json.encode(event).decode() if as_json else _line(event))


def _line(event: Event) -> str:
    when = datetime.fromtimestamp(event.wall, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if event.decision is not None:
        return f"{when}  -> {event.decision.sentence}"
    assert event.verdict is not None
    return f"{when}  {event.verdict.detector}: {event.verdict.level}, {event.verdict.sentence}"


@app.command()
def evaluate(
    runs: Annotated[int, typer.Option(min=2, help="Runs a kind, both halves together.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the first run.")] = 1,
    half: Annotated[str, typer.Option(help="`tune` or `report`.")] = "report",
    as_json: AsJson = False,
) -> None:
    """Judge generated 72-hour runs, healthy and sick; exit code 1 when a bound is broken."""
    from rich.console import Console

    from ..evaluation.judge import Half
    from ..evaluation.table import report, table

    try:
        which = Half(half)
    except ValueError:
        raise typer.BadParameter(f"{half} is neither `tune` nor `report`", param_hint="--half") from None
    made = report(_with_progress(seed, runs, which), seed, runs, which)
    if as_json:
        print_json(made)
    else:
        console = Console()
        console.print(table(made))
        console.print(
            f"false alarms in {made.false_share:.2%} of {made.healthy_runs} healthy runs; "
            f"{made.runs_a_kind} runs a kind, half `{made.half}`, seeds from {made.seed}"
        )
    for sentence in made.broken():
        typer.echo(f"stoker: {sentence}", err=True)
    raise typer.Exit(1 if made.broken() else 0)


def _with_progress(seed: int, runs: int, half: Half) -> list[Outcome]:
    from rich.progress import track

    from ..evaluation.table import evaluate as evaluated
    from ..evaluation.table import total

    outcomes = evaluated(seed, runs, half)
    return list(track(outcomes, "72-hour runs", total=total(seed, runs, half), console=aside()))

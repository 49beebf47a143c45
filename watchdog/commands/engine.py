"""`stoker engine …`: act on an engine of the running tree."""

from __future__ import annotations

from typing import Annotated

import typer

from ...config import Paths
from .options import AsJson, aside, print_json

app = typer.Typer(help="Act on an engine of the running tree.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The engine; `stoker status` lists them.")]


@app.command()
def restart(name: Name = "default", as_json: AsJson = False) -> None:
    """Replace an engine's process and wait until it is ready; streams pause and go on."""
    from ..client import WatchdogClient

    client = WatchdogClient(Paths.from_environment())
    with aside().status(f"restarting the engine {name} …"):
        engine = client.settled(name, after_epoch=client.restart_engine(name))
    if as_json:
        print_json(engine)
    elif engine.failure is not None:
        typer.echo(f"stoker: {engine.failure}", err=True)
    else:
        typer.echo(f"engine {name} is ready again (pid {engine.pid}, epoch {engine.epoch})")
    raise typer.Exit(0 if engine.failure is None else 1)


@app.command()
def drain(name: Name = "default") -> None:
    """Give an engine nothing new: requests get 503, what runs goes on to its end."""
    from ..client import WatchdogClient

    WatchdogClient(Paths.from_environment()).drain_engine(name, drained=True)
    typer.echo(f"engine {name} gets nothing new; `stoker engine resume {name}` ends that")


@app.command()
def resume(name: Name = "default") -> None:
    """Give a drained engine requests again."""
    from ..client import WatchdogClient

    WatchdogClient(Paths.from_environment()).drain_engine(name, drained=False)
    typer.echo(f"engine {name} gets requests again")


@app.command()
def reclaim(
    name: Name = "default",
    level: Annotated[
        int,
        typer.Option(
            min=0, max=3, help="1 the pool; 2 half the prefix cache, twice all of it; 3 begin nothing; 0 undo 2 and 3."
        ),
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Have an engine give memory back; nothing that runs is disturbed."""

    from ..client import WatchdogClient

    done = WatchdogClient(Paths.from_environment()).reclaim_engine(name, level)
    if as_json:
        print_json(done)
    elif level == 0:
        typer.echo(f"engine {name} keeps and begins as much as is configured again")
    else:
        typer.echo(f"engine {name} gave back {done.freed_bytes / 1e6:.0f} MB")

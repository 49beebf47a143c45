"""`stoker install` and `stoker uninstall`: the tree in the hands of the machine's init system."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...config import Paths, load
from .options import ConfigFile

User = Annotated[str | None, typer.Option(help="As root: the account that the tree runs as.")]


def install(
    config: ConfigFile = None,
    user: User = None,
    print_only: Annotated[bool, typer.Option("--print", help="Print the file; change nothing.")] = False,
) -> None:
    """Start the endpoint now and at every boot or login, by launchd or systemd, on this $STOKER_HOME."""
    from .. import install as installing
    from ..units import Serve, longest_stop_s

    paths = Paths.from_environment()
    serve = Serve(_program(), paths.home, config.absolute() if config else None, longest_stop_s(load(config, paths)))
    what = installing.installation(serve, user)
    if print_only:
        typer.echo(what.content.decode(), nl=False)
        return
    paths.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    installing.install(what, installing.run_command)
    typer.echo(f"installed {what.path}; ask `stoker status` when it is ready" + (f"\n{what.hint}" if what.hint else ""))


def uninstall(user: User = None) -> None:
    """Stop the endpoint and take it out of the init system's hands; its files under $STOKER_HOME stay."""
    from .. import install as installing
    from ..units import Serve

    what = installing.installation(Serve(_program(), Paths.from_environment().home, None, 0.0), user)
    if not installing.uninstall(what, installing.run_command):
        typer.echo(f"stoker: nothing is installed at {what.path}", err=True)
        raise typer.Exit(1)
    typer.echo(f"stopped, and removed {what.path}")


def _program() -> Path:
    """The `stoker` of this installation, whatever PATH says."""
    return Path(sys.executable).with_name("stoker")

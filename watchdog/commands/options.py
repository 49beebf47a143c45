"""What several commands take and give: options that mean the same everywhere, and JSON for machines."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file; default: stoker.toml under $STOKER_HOME.")
]
Key = Annotated[str | None, typer.Option(envvar="STOKER_API_KEY", help="The key to show there.")]

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def set_quiet(wanted: bool) -> None:
    """The callback of `--quiet`, for the one command that this process runs."""
    _quiet.set(wanted)


def aside() -> Console:
    """Where progress is shown: standard error, or nowhere with `--quiet`."""
    from rich.console import Console

    return Console(stderr=True, quiet=_quiet.get())


def hint(text: str) -> None:
    """Say beside the answer what may help; nothing with `--quiet`."""
    if not _quiet.get():
        typer.echo(text, err=True)


def print_json(value: object) -> None:
    """Indented, as a person who pipes it into a file would want it."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())

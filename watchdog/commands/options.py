"""What several commands take and give: options that mean the same everywhere, and JSON for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file; default: stoker.toml under $STOKER_HOME.")
]
Key = Annotated[str | None, typer.Option(envvar="STOKER_API_KEY", help="The key to show there.")]


def print_json(value: object) -> None:
    """Indented, as a person who pipes it into a file would want it."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())

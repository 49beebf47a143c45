"""`stoker connect`: the settings that bring an agent to the running endpoint, tried before they are printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ...config import Paths
from .options import Key, hint


def connect(
    agent: Annotated[
        Literal["claude-code", "aider", "continue", "openai", "anthropic"], typer.Argument(help="Who shall connect.")
    ],
    url: Annotated[str | None, typer.Option(help="Another endpoint than the tree on this $STOKER_HOME.")] = None,
    key: Key = None,
    write: Annotated[bool, typer.Option("--write", help="Write them into the agent's own file.")] = False,
) -> None:
    """Print the settings with which an agent uses the running endpoint, after a request as the agent would send it."""
    from .. import connect as connecting
    from ..agents import AGENTS
    from ..client import WatchdogClient

    endpoint = connecting.found(url or WatchdogClient(Paths.from_environment()).serving.api, key)
    settings = AGENTS[agent](endpoint, Path.home())
    seconds = connecting.answers(endpoint, settings.api)
    typer.echo(settings.text, nl=False)
    hint(f"# {endpoint.model} answered over the {settings.api.value} API in {seconds:.1f} s")
    if write:
        hint(f"# written to {connecting.write(settings)}")
    elif settings.file is not None:
        hint(f"# `stoker connect {agent} --write` puts this into {settings.file}")

"""`stoker compare`: several whole servers side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...config import Paths
from ...watchdog.commands.options import AsJson
from .reporting import Files, check_files, deliver, progress, run


def compare(
    file: Annotated[Path, typer.Argument(help="Which servers, on what: a TOML file; see docs/benchmarks.md.")],
    *,
    report: Files = None,
    as_json: AsJson = False,
) -> None:
    """Start, measure and stop several servers, one after the other, on the same work; one report side by side."""
    from rich.console import Console

    from ...engine import models
    from ...engine.progress import progress_on
    from ..compare import comparing, stacks

    check_files(report)
    wanted = stacks.read(file)
    model = models.ensure(wanted.model, Paths.from_environment().models, progress_on(Console(stderr=True)))
    with progress(comparing.sittings(wanted), wanted.seconds) as begins:
        made = run(comparing.compare(wanted, str(model), begins))
    deliver(made, report, as_json)

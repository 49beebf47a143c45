"""`stoker doctor`: exit code 0 when nothing fails, 1 when something does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...config import Paths
from ..doctor.findings import Level, Symptom, worst
from .options import AsJson, ConfigFile, Key, aside, hint, print_json


def doctor(
    *,
    symptom: Annotated[Symptom | None, typer.Option(help="Look first at where this usually comes from.")] = None,
    url: Annotated[str | None, typer.Option(help="Look at another server, as a client of it.")] = None,
    key: Key = None,
    config: ConfigFile = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Also pack what a helper needs into this .tar.gz; no prompt and no key is in it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong, layer by layer: what was measured, and what to do."""
    from rich.console import Console

    from ..doctor.bundle import write_bundle
    from ..doctor.examination import Examination, examine_foreign
    from ..doctor.report import show

    paths = Paths.from_environment()
    if url is not None and bundle is not None:
        raise typer.BadParameter(
            "a bundle is about the tree on this $STOKER_HOME: leave --url out", param_hint="--bundle"
        )
    with aside().status("looking …"):
        if url is not None:
            findings = examine_foreign(url, key)
        else:
            examination = Examination(paths, config, key)
            findings = examination.findings(symptom)
    if bundle is not None:
        contents = write_bundle(bundle, findings, examination.server, paths)
        hint(f"packed {', '.join(contents)} into {bundle}")
    if as_json:
        print_json(findings)
    else:
        show(findings, Console())
    raise typer.Exit(1 if worst(findings) is Level.FAILURE else 0)

"""`stoker alerts …`: try targets, see who is told and what is on its way, be quiet, and the rules for Prometheus."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ...config import Paths, load
from .options import AsJson, ConfigFile, print_json
from .status import seconds

app = typer.Typer(help="Who is told of incidents: try it, see it, silence it.", no_args_is_help=True)


@app.command()
def test(
    target: Annotated[str | None, typer.Option(help="Only this one.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send a marked message to every target and say what came back; exit code 1 when one does not take it."""
    from ...alerts.targets import read_targets
    from ...alerts.trial import try_all
    from ..telling import origin_of

    settings = load(config, Paths.from_environment())
    targets = [each for each in read_targets(settings.alerts, os.environ) if target in (None, each.name)]
    if not targets:
        typer.echo("stoker: there is no such target; `[[alerts.targets]]` of the configuration names them", err=True)
        raise typer.Exit(1)
    origin = origin_of(f"http://{settings.watchdog.host}:{settings.watchdog.port}")
    tried = asyncio.run(try_all(targets, origin, settings.alerts.timeout_s))
    if as_json:
        print_json(tried)
    else:
        for each in tried:
            came = "taken" if each.refusal is None else f"not taken: {each.refusal}"
            typer.echo(f"{each.target}  {each.status}: {came} ({each.took_s:.2f} s)")
    raise typer.Exit(0 if all(each.refusal is None for each in tried) else 1)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show each target of the running tree, what waits for it, and until when it is quiet."""
    from rich.console import Console
    from rich.table import Table

    from ..client import WatchdogClient

    found = WatchdogClient(Paths.from_environment()).telling()
    if as_json:
        print_json(found)
        return
    table = Table("target", "waiting", "attempts", "next", "last error", box=None, pad_edge=False)
    for each in found.targets:
        state = "gone (410)" if each.gone else "probed" if each.circuit_open else ""
        due = "" if each.next_at is None else f"in {max(0.0, each.next_at - time.time()):.0f} s"
        table.add_row(each.name, str(each.waiting), str(each.attempts), state or due, each.error or "")
    console = Console()
    console.print(table if found.targets else "nobody is told; docs/alerts.md says how somebody is")
    if found.quiet_until is not None:
        console.print(f"quiet until {_at(found.quiet_until)}")


@app.command()
def silence(
    lasting: Annotated[str, typer.Argument(metavar="TIME", help="For how long: 30m, 2h, 1d; 0m ends it.")],
    reason: Annotated[str, typer.Option(help="What is being done, for who looks.")] = "",
    as_json: AsJson = False,
) -> None:
    """Tell nobody for a while; what is still wrong afterwards is told then. The tree need not run for it."""
    from ...alerts.quiet import Silence, write

    asked = Silence(time.time() + seconds(lasting, "TIME"), reason)
    write(Paths.from_environment().quiet, asked)
    if as_json:
        print_json(asked)
    elif asked.until <= time.time():
        typer.echo("not quiet any more")
    else:
        typer.echo(f"quiet until {_at(asked.until)}")


@app.command()
def rules(
    write: Annotated[Path | None, typer.Option(help="Write them to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the alerts of Prometheus with their severity and runbook, or write the rules to a file."""
    from rich.console import Console
    from rich.table import Table

    from ...alerts.rules import alerts, text
    from ...alerts.runbooks import runbook_url

    if write is not None:
        write.write_text(text(), encoding="utf-8")
        typer.echo(write)
        return
    named = {alert.name: alert for alert in alerts()}
    if as_json:
        print_json([{**alert.as_yaml()["annotations"], "alert": name} for name, alert in named.items()])
        return
    table = Table("alert", "severity", "what users feel", "runbook", box=None, pad_edge=False)
    for name, alert in named.items():
        table.add_row(name, alert.severity.value, alert.summary, runbook_url(name))
    Console().print(table)


def _at(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%SZ}"

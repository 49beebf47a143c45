"""`stoker incidents` and `stoker status`: what happened, and what is, once or as a view that stays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from typing import Annotated

import typer

from ...config import ConfigError, Paths, load
from ..errors import NotRunning, Refused
from ..past import Past
from .options import AsJson, print_json

WATCH_PERIOD_S = 2.0
UPTIME_WINDOW_S = 72 * 3600.0
_UNITS_S = {"m": 60.0, "h": 3600.0, "d": 86400.0}


def incidents(
    since: Annotated[str, typer.Option(help="How far to look back: 30m, 72h, 7d.")] = "72h", as_json: AsJson = False
) -> None:
    """Show what went wrong, why and what was done about it, and the uptime; the tree need not run for it."""
    from rich.console import Console

    from ..table import show_past

    past = past_of(Paths.from_environment(), seconds(since))
    if as_json:
        print_json(past)
    else:
        show_past(past, since, Console())


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Stay and show it anew every two seconds.")] = False,
    trace: Annotated[
        str | None, typer.Option(help="Show where one request's time went: its trace id, its request id, or `last`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the running tree; exit code 0 when all of it is ready, 1 when not."""
    from rich.console import Console

    from ..client import WatchdogClient
    from ..table import show

    if watch:
        _stay()
        return
    if trace is not None:
        _show_trace(trace, as_json)
        return
    try:
        tree = WatchdogClient(Paths.from_environment()).status()
    except NotRunning as error:
        if as_json:
            print_json({"ready": False, "failure": str(error)})
        else:
            typer.echo(f"stoker: {error}", err=True)
        raise typer.Exit(1) from error
    if as_json:
        print_json(tree)
    else:
        show(tree, Console())
    raise typer.Exit(0 if tree.ready else 1)


def _show_trace(name: str, as_json: bool) -> None:
    from rich.console import Console

    from ..client import WatchdogClient
    from ..waterfall import show

    try:
        found = WatchdogClient(Paths.from_environment()).trace(name)
    except (NotRunning, Refused) as error:
        typer.echo(f"stoker: {error}", err=True)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        show(found, Console())


def seconds(text: str, where: str = "--since") -> float:
    """`72h` in seconds; `where` it was given. Raises `typer.BadParameter`."""
    found = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if found is None:
        raise typer.BadParameter(f"`{text}` is no time; write 30m, 72h or 7d", param_hint=where)
    return int(found[1]) * _UNITS_S[found[2]]


def past_of(paths: Paths, window_s: float) -> Past:
    """From the watchdog, which knows what is not written yet; from the journal itself when no tree runs."""
    from ..client import WatchdogClient

    try:
        return WatchdogClient(paths).past(window_s)
    except NotRunning:
        return asyncio.run(_read(journal_url(paths), window_s))


def journal_url(paths: Paths) -> str:
    try:
        return load(None, paths).watchdog.journal.url or paths.journal_url
    except ConfigError:
        # What has happened can be told with a configuration that would not start a tree.
        return paths.journal_url


async def _read(url: str, window_s: float) -> Past:
    from ..journal.store import Store, sqlite_file
    from ..journal.uptime import TREE, Uptime, uptime

    file = sqlite_file(url)
    if file is not None and not await asyncio.to_thread(file.exists):
        return Past([], Uptime())
    store = await Store.opened(url)
    try:
        now = time.time()
        intervals = await store.intervals(TREE, now - window_s)
        return Past(await store.incidents(now - window_s), uptime(intervals, now - window_s, now))
    finally:
        await store.close()


def _stay() -> None:
    """Until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    from ..client import WatchdogClient
    from ..table import live_view

    paths = Paths.from_environment()
    with contextlib.suppress(KeyboardInterrupt), Live(console=Console(), auto_refresh=False, screen=True) as live:
        while True:
            try:
                client = WatchdogClient(paths)
                view = live_view(client.status(), client.past(UPTIME_WINDOW_S))
            except NotRunning as error:
                live.update(str(error), refresh=True)
            else:
                live.update(view, refresh=True)
            time.sleep(WATCH_PERIOD_S)

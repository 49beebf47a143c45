"""The status of a tree as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .status import EngineStatus, ServiceStatus, Status


def show(tree: Status, console: Console) -> None:
    """Print one line a child, then why a child stays away."""
    table = Table("child", "state", "pid", "epoch", "restarts", "last restart", box=None, pad_edge=False)
    for engine in tree.engines:
        table.add_row(*map(escape, (f"engine {engine.name} ({engine.model})", *_cells(engine, str(engine.epoch)))))
    table.add_row(*map(escape, (f"service {tree.service.url}", *_cells(tree.service, ""))))
    console.print("ready" if tree.ready else "not ready", style="green" if tree.ready else "red")
    console.print(table)
    if tree.shed.level:
        console.print(f"shed level {tree.shed.level} of 3: {tree.shed.reason}", style="yellow", markup=False)
    for failure in (*(engine.failure for engine in tree.engines), tree.service.failure):
        if failure is not None:
            console.print(failure, markup=False)


def _cells(child: EngineStatus | ServiceStatus, epoch: str) -> tuple[str, ...]:
    last = ""
    if (restart := child.last_restart) is not None:
        back = "not back yet" if restart.ready_after_s is None else f"back after {restart.ready_after_s:.1f} s"
        last = f"{restart.reason} at {restart.at:%Y-%m-%d %H:%M:%SZ}, {back}"
    return child.state.value, str(child.pid or ""), epoch, str(child.restarts), last

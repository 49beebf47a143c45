"""The status of a tree as a table for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .journal.records import DeliveryRecord
from .journal.uptime import Uptime
from .past import Past
from .status import EngineStatus, ServiceStatus, Status


def show(tree: Status, console: Console) -> None:
    """Print one line a child, then why a child stays away."""
    for part in _status(tree):
        console.print(part)


def live_view(tree: Status, past: Past) -> Group:
    """The status with uptime and what is wrong now, for a screen that stays."""
    wrong = [each for each in past.incidents if each.incident.closed_at is None]
    lines = [Text(_uptime(past.uptime, "72h")), Text(f"{len(past.incidents)} incidents, {len(wrong)} open")]
    lines += [Text(f"{each.incident.kind}: {each.incident.summary}", style="red") for each in wrong]
    return Group(*_status(tree), *lines)


def show_past(past: Past, window: str, console: Console) -> None:
    """Print every incident with what was done about it, then the uptime."""
    for told in past.incidents:
        incident, lasted = told.incident, told.duration_s
        ended = "open" if lasted is None else f"lasted {timedelta(seconds=round(lasted))}"
        console.print(Text(f"{_at(incident.opened_at)}  {incident.kind}, {ended}: {incident.summary}", style="bold"))
        for action in told.actions:
            console.print(Text(f"  {_at(action.at)}  {action.why}: {action.outcome or 'under way'}"))
        for delivery in told.deliveries:
            console.print(
                Text(f"  {_at(delivery.at)}  {delivery.target} told `{delivery.status}`: {_came_of(delivery)}")
            )
    if not past.incidents:
        console.print(f"no incidents in {window}")
    console.print(_uptime(past.uptime, window))


def _came_of(delivery: DeliveryRecord) -> str:
    tries = f", {delivery.attempts} tries" if delivery.attempts > 1 else ""
    error = f", last {delivery.error}" if delivery.error and delivery.outcome != "delivered" else ""
    return f"{delivery.outcome or 'under way'}{tries}{error}"


def _status(tree: Status) -> Iterator[RenderableType]:
    table = Table("child", "state", "pid", "epoch", "restarts", "last restart", box=None, pad_edge=False)
    for engine in tree.engines:
        table.add_row(*map(escape, (f"engine {engine.name} ({engine.model})", *_cells(engine, str(engine.epoch)))))
    table.add_row(*map(escape, (f"service {tree.service.url}", *_cells(tree.service, ""))))
    yield Text("ready", style="green") if tree.ready else Text("not ready", style="red")
    yield table
    if tree.shed.level:
        yield Text(f"shed level {tree.shed.level} of 3: {tree.shed.reason}", style="yellow")
    for failure in (*(engine.failure for engine in tree.engines), tree.service.failure):
        if failure is not None:
            yield Text(failure)


def _uptime(found: Uptime, window: str) -> str:
    share = "unknown" if found.share is None else f"{found.share:.3%}"
    off = f", switched off for {timedelta(seconds=round(found.off_s))}" if found.off_s >= 1 else ""
    return f"uptime in {window}: {share} (down for {timedelta(seconds=round(found.down_s))}{off})"


def _at(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%SZ}"


def _cells(child: EngineStatus | ServiceStatus, epoch: str) -> tuple[str, ...]:
    last = ""
    if (restart := child.last_restart) is not None:
        back = "not back yet" if restart.ready_after_s is None else f"back after {restart.ready_after_s:.1f} s"
        last = f"{restart.reason} at {restart.at:%Y-%m-%d %H:%M:%SZ}, {back}"
    return child.state.value, str(child.pid or ""), epoch, str(child.restarts), last

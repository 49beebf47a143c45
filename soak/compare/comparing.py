"""All servers in turn, in a new order each time; then one report, side by side."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..bench.benching import Plan, lag_notes, plan_facts
from ..bench.estimate import Estimate, estimate
from ..bench.figures import METRICS, Seen
from ..bench.report import Report, Table, metric_rows
from ..bench.sitting import sit, warm_up
from ..errors import SoakError, StacksUnusable
from .running import missing, running
from .stacks import Contender, Stacks, contender

KILLED_AFTER = 1 / 3
"""Of the time: enough before it to be in full work, and enough after it to see whether it comes back."""


@dataclass(slots=True)
class Record:
    """What was seen of one server, and what went wrong with it."""

    contender: Contender
    seen: list[Seen] = field(default_factory=list)
    killed: list[Seen] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


async def compare(stacks: Stacks, model: str, on_sitting: Callable[[str], None]) -> Report:
    """`model` is the common one's folder. A server that fails is reported as such. Raises `StacksUnusable`."""
    contenders = [contender(stack, model) for stack in stacks.stack]
    absent = {each.name: why for each in contenders if (why := missing(each)) is not None}
    records = [Record(each) for each in contenders if each.name not in absent]
    if not records:
        raise StacksUnusable("none of the servers is here: " + "; ".join(absent.values()))
    order = random.Random(stacks.seed)
    for repeat in range(stacks.repeats):
        for record in order.sample(records, len(records)):
            on_sitting(f"{record.contender.name}, {repeat + 1} of {stacks.repeats}")
            await _measure(stacks, record, repeat)
    return _report(stacks, records, tuple(absent.values()))


def sittings(stacks: Stacks) -> int:
    """How many there will be at most."""
    return stacks.repeats * len(stacks.stack)


async def _measure(stacks: Stacks, record: Record, repeat: int) -> None:
    plan = _plan(stacks)
    try:
        async with running(record.contender, stacks.streams, stacks.ready_within) as server:
            await warm_up(server.target, stacks.streams)
            # The same texts for every server, other ones on each repeat.
            work = plan.asked(stacks.streams, repeat)
            seen = await sit(server.target, work, stacks.seconds, server.watched)
            record.seen.append(replace(seen, start_s=server.start_s))
            if stacks.kill_seconds and repeat == stacks.repeats - 1:
                killing = asyncio.get_running_loop().call_later(stacks.kill_seconds * KILLED_AFTER, server.kill)
                work = plan.asked(stacks.streams, stacks.repeats)
                record.killed.append(await sit(server.target, work, stacks.kill_seconds, server.watched))
                killing.cancel()
    except SoakError as error:
        record.failures.append(str(error))


def _plan(stacks: Stacks) -> Plan:
    return Plan(stacks.workload, stacks.scale, stacks.seed, stacks.seconds, stacks.repeats, (stacks.streams,))


def _report(stacks: Stacks, records: Sequence[Record], absent: tuple[str, ...]) -> Report:
    tables = [_table(f"With {stacks.streams} conversations at once", records, [each.seen for each in records])]
    if stacks.kill_seconds:
        title = f"When the process that computes is killed, in {stacks.kill_seconds:.0f} s"
        tables.append(_table(title, records, [each.killed for each in records]))
    all_seen = [seen for record in records for seen in record.seen]
    return Report(
        "Comparison of " + ", ".join(record.contender.name for record in records),
        (
            ("model", stacks.model),
            *plan_facts(_plan(stacks)),
            ("order", f"new on each of {stacks.repeats} repeats; each server is started for it and stopped after it"),
            *((f"command of {each.contender.name}", " ".join(each.contender.entry.command)) for each in records),
        ),
        tuple(tables),
        (
            *(lag_notes(all_seen) if all_seen else ()),
            *(f"{record.contender.name}: {failure}" for record in records for failure in record.failures),
            *absent,
        ),
    )


def _table(title: str, records: Sequence[Record], sittings: Sequence[Sequence[Seen]]) -> Table:
    names = tuple(record.contender.name for record in records)
    return Table(title, names, metric_rows([_column(each) for each in sittings], judged=True))


def _column(seen: Sequence[Seen]) -> dict[str, Estimate | None]:
    return {metric.key: estimate(metric.of(each) for each in seen) for metric in METRICS}

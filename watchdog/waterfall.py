"""One request's trace as a waterfall for people: a line a span, its place in time, and what is to know about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

BAR = 40
QUIET = ("gen_ai.request.", "gen_ai.latency.", "gen_ai.provider", "gen_ai.operation", "gen_ai.input", "gen_ai.output")
"""Attributes that a line has no room for; `--json` has all of them."""

Node = Mapping[str, Any]


def show(trace: Node, console: Console) -> None:
    """`trace` is what `/internal/traces/{id}` answers."""
    began = datetime.fromtimestamp(trace["started_at"], UTC)
    console.print(f"trace {trace['trace_id']}  request {trace['request_id']}  {began:%Y-%m-%d %H:%M:%SZ}", markup=False)
    table = Table("span", "", "begins", "takes", "", box=None, pad_edge=False)
    for depth, span in in_order(trace["spans"]):
        start, end = span["start_s"], span["end_s"]
        failed = span["error"] is not None or "error.type" in span["attributes"]
        table.add_row(
            Text("  " * depth + span["name"]),
            Text(bar(start, end, trace["duration_s"]), style="red" if failed else "cyan"),
            f"{start * 1000:.1f} ms",
            f"{(end - start) * 1000:.1f} ms",
            Text(details(span)),
        )
    console.print(table)


def in_order(spans: Sequence[Node]) -> Iterator[tuple[int, Node]]:
    """Every span with its depth: parents before children, and children by their begin."""
    known = {span["id"] for span in spans}
    children: dict[str | None, list[Node]] = {}
    for span in sorted(spans, key=lambda span: float(span["start_s"])):
        children.setdefault(span["parent"] if span["parent"] in known else None, []).append(span)
    pending = [(0, span) for span in reversed(children.get(None, []))]
    while pending:
        depth, span = pending.pop()
        yield depth, span
        pending.extend((depth + 1, child) for child in reversed(children.get(span["id"], [])))


def bar(start_s: float, end_s: float, whole_s: float) -> str:
    """Its place in the whole; the shortest is a mark all the same."""
    scale = BAR / whole_s if whole_s > 1e-9 else 0.0
    first = min(max(int(start_s * scale), 0), BAR - 1)
    last = min(max(round(end_s * scale), first + 1), BAR)
    return " " * first + "━" * (last - first) + " " * (BAR - last)


def details(span: Node) -> str:
    """Attributes that say something about this very request, and how many pieces it was in."""
    said = {name: value for name, value in span["attributes"].items() if not name.startswith(QUIET)}
    parts = [f"{name.rpartition('.')[2]}={_short(value)}" for name, value in said.items()]
    chunks = sum(event["name"] == "chunk" for event in span["events"])
    return " ".join([*parts, f"chunks={chunks}"] if chunks else parts)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)

"""The findings for people: a line each, and under what is not well what to do."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .findings import Finding, Level, worst

MARKS = {
    Level.OK: ("✓", "green"),
    Level.WARNING: ("!", "yellow"),
    Level.FAILURE: ("✗", "bold red"),
    Level.SKIPPED: ("·", "dim"),
}
_VERDICTS = {
    Level.OK: "Everything that was looked at is well.",
    Level.WARNING: "It works; look at what is marked with !",
    Level.FAILURE: "Begin with the first ✗ from below: what is above it often follows from it.",
}


def show(findings: list[Finding], console: Console) -> None:
    """Print them in their order; the layer's name stands once."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    layer = None
    for finding in findings:
        mark, style = MARKS[finding.level]
        name = "" if finding.layer == layer else finding.layer.value
        layer = finding.layer
        table.add_row(Text(name, "bold"), Text(mark, style), finding.check, Text(finding.measured))
        if finding.remedy is not None:
            table.add_row("", "", "", Text(f"→ {finding.remedy}", "cyan"))
    console.print(table)
    console.print(Text(_VERDICTS[worst(findings)], "bold"))

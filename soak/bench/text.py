"""A report in words: numbers as people read them, a table for the terminal, and Markdown. Pure but for the console."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table as ConsoleTable

from .estimate import Estimate
from .figures import Unit
from .report import Report, Row, Table

NOT_SHOWN = "-"


def value(number: float, unit: Unit) -> str:
    """With its unit, and three digits that count."""
    match unit:
        case "s":
            return f"{number * 1000:.{_digits(number * 1000)}f} ms" if number < 1 else f"{number:.{_digits(number)}f} s"
        case "bytes":
            return f"{number / 1e9:.2f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"
        case "share":
            return f"{number:.1%}"
        case "streams":
            return f"{number:.1f}"
        case "tok/s" | "1/h" | "nats" | "plain":
            return f"{number:.{_digits(number)}f}"


def _digits(number: float) -> int:
    """After the point."""
    return next((digits for bound, digits in ((100, 0), (10, 1), (1, 2)) if abs(number) >= bound), 3 if number else 0)


def cell(found: Estimate | None, unit: Unit) -> str:
    """The median, and its interval where it says more than the median."""
    if found is None:
        return NOT_SHOWN
    median = value(found.median, unit)
    if found.low is None or found.high is None:
        return median
    low, high = value(found.low, unit), value(found.high, unit)
    return median if low == high == median else f"{median} ({_bare(low, high)} to {high})"


def _bare(low: str, high: str) -> str:
    """Without its unit, if the other bound has the same."""
    number, _, unit = low.partition(" ")
    return number if unit and high.endswith(f" {unit}") else low


def heading(row: Row) -> str:
    """The title, with the unit that its cells do not carry."""
    return f"{row.title} ({row.unit})" if row.unit in ("tok/s", "1/h", "nats") else row.title


def markdown(report: Report) -> str:
    """The whole of it; the best cells are bold."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: Report) -> Iterator[str]:
    yield f"# {report.title}"
    yield ""
    yield from (f"- {name}: {said}" for name, said in report.facts)
    for table in report.tables:
        yield from ("", f"## {table.title}", "")
        yield f"| | {' | '.join(table.columns)} |"
        yield "|---" * (len(table.columns) + 1) + "|"
        for row in table.rows:
            cells = (
                f"**{cell(each, row.unit)}**" if number in row.best else cell(each, row.unit)
                for number, each in enumerate(row.cells)
            )
            yield f"| {heading(row)} | {' | '.join(cells)} |"
    if report.notes:
        yield ""
        yield from (f"- {note}" for note in report.notes)


def show(report: Report, console: Console) -> None:
    """Tables and notes; the best cells stand out."""
    for table in report.tables:
        console.print(f"[bold]{table.title}[/bold]")
        console.print(_console_table(table))
    for note in report.notes:
        console.print(f"· {note}", markup=False)


def _console_table(table: Table) -> ConsoleTable:
    made = ConsoleTable("", *table.columns, box=None, pad_edge=False)
    for row in table.rows:
        cells = (
            f"[green]{cell(each, row.unit)}[/green]" if number in row.best else cell(each, row.unit)
            for number, each in enumerate(row.cells)
        )
        made.add_row(heading(row), *cells)
    return made

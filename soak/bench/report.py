"""A report: facts, tables of estimates and notes, in a form that text, pages and programs are made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .estimate import Estimate
from .figures import METRICS, Better, Unit


@dataclass(frozen=True, slots=True)
class Row:
    """One metric, a cell for each column; `best` are the numbers of the columns that no other one beats."""

    key: str
    title: str
    unit: Unit
    definition: str
    cells: tuple[Estimate | None, ...]
    best: tuple[int, ...] = ()

    def judged(self, better: Better) -> Row:
        """With its best cells."""
        return replace(self, best=_best(self.cells, better == "lower"))


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, and how."""

    title: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()


def metric_rows(columns: Sequence[dict[str, Estimate | None]], judged: bool) -> tuple[Row, ...]:
    """Every metric, whether any column shows it or not: what a target hides is said too."""
    rows = (
        Row(
            metric.key,
            metric.title,
            metric.unit,
            metric.definition,
            tuple(column.get(metric.key) for column in columns),
        )
        for metric in METRICS
    )
    return tuple(
        row.judged(metric.better) if judged and metric.better is not None else row
        for row, metric in zip(rows, METRICS, strict=True)
    )


def _best(cells: Sequence[Estimate | None], lower: bool) -> tuple[int, ...]:
    """The leading cell and those whose intervals reach it, between which nothing is decided; none if that is all.

    None either where a cell was measured once: nobody knows how far it reaches.
    """
    known = [(cell, number) for number, cell in enumerate(cells) if cell is not None]
    if len(known) < 2 or any(cell.low is None for cell, _ in known):
        return ()
    leader, _ = (min if lower else max)(known, key=lambda each: each[0].median)
    best = tuple(number for cell, number in known if _reach(cell, leader))
    return best if len(best) < len(known) else ()


def _reach(one: Estimate, other: Estimate) -> bool:
    bounds = (one.low, other.high), (other.low, one.high)
    return all(low is not None and high is not None and low <= high for low, high in bounds)

"""A run in a page of Markdown, for a pull request or a ticket. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..intervals import Interval
from ..keeping import Run
from .numbers import rows_of, span
from .series import absences
from .words import moment, title


def markdown(run: Run, intervals: Sequence[Interval]) -> str:
    """Verdict, gates, numbers, what went wrong, and when the run was away."""
    assert run.result is not None
    summary, verdict = run.result.summary, run.result.verdict
    incidents = [
        (moment(each.incident.opened_at), each.incident.kind, each.incident.summary, each.by or "nothing")
        for each in summary.incidents
    ]
    away = [(moment(each.since), span(each.seconds)) for each in absences(run.began_at, intervals)]
    parts = [
        f"# {title(run)}: {verdict.outcome.value}",
        "\n".join(f"- {reason}" for reason in verdict.reasons),
        _table(("gate", "", "what it came to"), [(g.gate, g.outcome.value, g.sentence) for g in verdict.gates]),
        _table(("", "value"), rows_of(run)),
        "## Incidents\n\n" + _table(("since", "kind", "what", "explained by chaos"), incidents),
        "## Away\n\n" + _table(("since", "for"), away),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) if lines else "None."

"""A report as one HTML file that needs nothing else: plotly's script is in it, and it is as light or dark as wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from ..intervals import Act, Interval
from ..keeping import Run
from ..summary import Explained
from .figures import figures
from .numbers import rows_of, span
from .series import absences
from .words import moment, title

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1d2127; --soft: #5d646e; --line: #e2e5e9; --card: #f6f7f9;
  --pass: #1d7a52; --fail: #b3263e; --inconclusive: #94620a; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --text: #e6e8eb; --soft: #9aa1ab; --line: #2b3037;
  --card: #1b1f24; --pass: #4cc38a; --fail: #ff7a8a; --inconclusive: #e5b04a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 68rem; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
.lead { color: var(--soft); margin: .25rem 0 1.25rem; }
.verdict { display: inline-block; padding: .2rem .8rem; border-radius: 1rem; font-weight: 600; border: 1.5px solid; }
.pass { color: var(--pass); } .fail { color: var(--fail); } .inconclusive { color: var(--inconclusive); }
ul.reasons { margin: .75rem 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; } td:first-child { white-space: nowrap; }
.chart { background: var(--card); border-radius: .5rem; padding: .5rem; }
"""
THEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  for (const chart of document.querySelectorAll(".plotly-graph-div"))
    Plotly.relayout(chart, {"font.color": dark.matches ? "#b9c0c9" : "#4a515b",
      "hoverlabel.bgcolor": dark.matches ? "#2b3037" : "#ffffff",
      "hoverlabel.font.color": dark.matches ? "#e6e8eb" : "#1d2127"});
}
addEventListener("load", paint);
dark.addEventListener("change", paint);
"""


def page(run: Run, intervals: Sequence[Interval]) -> str:
    """The whole file."""
    assert run.result is not None
    summary, verdict = run.result.summary, run.result.verdict
    outcome = verdict.outcome.value
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in verdict.reasons)
    away = [(moment(each.since), span(each.seconds)) for each in absences(run.began_at, intervals)]
    charts = "".join(_chart(name, figure) for name, figure in figures(run, intervals).items())
    gates = [(_colored(gate.outcome.value), gate.gate, escape(gate.sentence)) for gate in verdict.gates]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title(run))}</title><link rel="icon" href="data:,">
<style>{STYLE}</style><script>{get_plotlyjs()}</script></head><body>
<h1>{escape(title(run))}</h1>
<p class="lead">{escape(_lead(run))}</p>
<span class="verdict {outcome}">{outcome}</span><ul class="reasons">{reasons}</ul>
<h2>Gates</h2>{_table(("", "gate", "what it came to"), gates)}
{charts}
<h2>Numbers</h2>{_table(("", "value"), [tuple(map(escape, row)) for row in rows_of(run)])}
<h2>Incidents</h2>{_incidents(summary.incidents)}
<h2>Acts of chaos</h2>{_acts(summary.acts)}
<h2>Away</h2>{_table(("since", "for"), away, "The run was there all the time.")}
<h2>Failures, in the server's words</h2>{_table(("",), [(escape(each),) for each in summary.errors], "None.")}
<script>{THEME}</script></body></html>
"""


def _lead(run: Run) -> str:
    plan = run.plan
    chaos = " ".join(map(str, plan.chaos)) or "no chaos"
    return (
        f"{plan.model}, workload {plan.workload} at {plan.scale:g} of its lengths, seed {plan.seed}, {chaos}; "
        f"begun {moment(run.began_at)}, planned for {span(plan.duration_s)} of load"
    )


def _chart(name: str, figure: go.Figure) -> str:
    drawn = figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True})
    return f'<h2>{escape(name)}</h2><div class="chart">{drawn}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], nothing: str = "None.") -> str:
    """Of cells that are HTML already."""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    if not body:
        return f"<p>{nothing}</p>"
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _colored(outcome: str) -> str:
    return f'<b class="{outcome}">{outcome}</b>'


def _incidents(incidents: Iterable[Explained]) -> str:
    rows = []
    for each in incidents:
        incident = each.incident
        lasted = "open" if incident.closed_at is None else span(incident.closed_at - incident.opened_at)
        by = f"chaos: {each.by}" if each.by else '<b class="fail">nothing</b>'
        done = "<br>".join(map(escape, incident.actions))
        rows.append((moment(incident.opened_at), escape(incident.kind), lasted, escape(incident.summary), done, by))
    return _table(("since", "kind", "lasted", "what", "done about it", "explained by"), rows)


def _acts(acts: Iterable[Act]) -> str:
    rows = []
    for act in acts:
        took = "" if act.recovered_at is None else span(act.recovered_at - act.at)
        rows.append((moment(act.at), escape(act.kind), took, escape(act.note)))
    return _table(("at", "act", "over it after", ""), rows)

"""A report as one HTML file that needs nothing else: no script, no network; light or dark as the reader's system is."""

from __future__ import annotations

from jinja2 import Environment

from .report import Report
from .text import cell, heading

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ report.title }}</title>
<style>
:root { color-scheme: light dark; --line: #8884; --best: light-dark(#0a7d33, #5fd38a); --soft: #888; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0 2rem; display: block; overflow-x: auto; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 14rem; }
td.best { color: var(--best); font-weight: 600; }
small { color: var(--soft); display: block; }
dl { display: grid; grid-template-columns: max-content auto; gap: .2rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; }
</style>
</head>
<body>
<h1>{{ report.title }}</h1>
<dl>{% for name, said in report.facts %}<dt>{{ name }}</dt><dd>{{ said }}</dd>{% endfor %}</dl>
{% for table in report.tables %}
<h2>{{ table.title }}</h2>
<table>
<thead><tr><th></th>{% for column in table.columns %}<th>{{ column }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr><td>{{ heading(row) }}<small>{{ row.definition }}</small></td>
{% for each in row.cells %}<td{% if loop.index0 in row.best %} class="best"{% endif %}>{{ cell(each, row.unit) }}</td>
{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
{% endfor %}
{% if report.notes %}<ul>{% for note in report.notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}
</body>
</html>
"""


def html(report: Report) -> str:
    """The whole of it."""
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_PAGE)
    return template.render(report=report, cell=cell, heading=heading)

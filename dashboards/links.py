"""Where a panel leads: to another board, to a runbook, and from a point of a latency to the traces behind it.

What is in `${…}` is filled in by Grafana when somebody clicks:
https://grafana.com/docs/grafana/latest/panels-visualizations/configure-data-links/
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from urllib.parse import quote

RUNBOOKS = "runbooks"
"""The variable that says where runbooks are."""
RUNBOOKS_AT = "http://127.0.0.1:8001/runbooks"
"""A watchdog on its usual port has them; who serves them elsewhere opens the boards with `?var-runbooks=`."""
TEMPO = "tempo"
"""The variable that says which Tempo has the traces."""


@dataclass(frozen=True)
class Link:
    """What it says, and where it leads."""

    title: str
    url: str


def to_board(uid: str, title: str) -> Link:
    """Another board, of the same time."""
    return Link(title, f"/d/{uid}?${{__url_time_range}}&${{__all_variables}}")


def to_runbook(alert: str) -> Link:
    """What to do when this is bad."""
    return Link("What to do", f"${{{RUNBOOKS}}}/{alert}")


def to_slower(attribute: str) -> Link:
    """The requests of which a span's attribute, in seconds, is at least the value that was clicked."""
    return _to_traces(f"{{ span.{attribute} >= ${{__value.raw}} }}")


def to_longer(span: str) -> Link:
    """The requests with such a span at least as long as the value that was clicked."""
    return _to_traces(f'{{ name = "{span}" && duration >= ${{__value.raw}}s }}')


def _to_traces(traceql: str) -> Link:
    query = {
        "refId": "A",
        "datasource": {"type": "tempo", "uid": f"${{{TEMPO}}}"},
        "queryType": "traceql",
        "query": traceql,
    }
    times = {"from": "${__from}", "to": "${__to}"}
    pane = {"traces": {"datasource": f"${{{TEMPO}}}", "queries": [query], "range": times}}
    escaped = quote(json.dumps(pane, separators=(",", ":")), safe="")
    # Grafana looks for its variables before it decodes anything.
    variables = re.sub(r"%24%7B([\w.]+)%7D", r"${\1}", escaped)
    return Link("Traces at least as slow", f"/explore?schemaVersion=1&orgId=1&panes={variables}")

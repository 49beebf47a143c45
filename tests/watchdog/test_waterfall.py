"""A trace for people: parents above their children, and every bar where its span was."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stoker.watchdog.waterfall import BAR, bar, details, in_order, show


def span(name: str, parent: str | None, start: float, end: float, **more: Any) -> dict[str, Any]:
    made = {"id": name, "parent": parent, "name": name, "start_s": start, "end_s": end}
    return made | {"error": None, "attributes": {}, "events": []} | more


SPANS = [
    span("chat", "root", 0.1, 0.9),
    span("decode", "chat", 0.5, 0.9),
    span("root", None, 0.0, 1.0),
    span("queue", "chat", 0.1, 0.2),
]


def test_parents_come_before_their_children_and_children_by_their_begin() -> None:
    assert [(depth, each["name"]) for depth, each in in_order(SPANS)] == [
        (0, "root"),
        (1, "chat"),
        (2, "queue"),
        (2, "decode"),
    ]


def test_the_root_of_a_callers_trace_is_a_root_here() -> None:
    assert [depth for depth, _ in in_order([span("root", "somewhere else", 0, 1), span("chat", "root", 0, 1)])] == [
        0,
        1,
    ]


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10))
def test_every_bar_is_seen_and_none_is_too_long(start: float, more: float, after: float) -> None:
    drawn = bar(start, start + more, start + more + after)
    assert len(drawn) == BAR
    assert "━" in drawn


def test_a_line_says_what_is_peculiar_to_this_request() -> None:
    attributes = {"gen_ai.request.seed": 3, "stoker.cache.tier": "disk", "stoker.gap_seconds": 0.12345}
    chunks = [{"name": "chunk", "at_s": 0.1, "attributes": {}}] * 2
    said = details(span("prefill", None, 0, 1, attributes=attributes, events=chunks))
    assert said == "tier=disk gap_seconds=0.123 chunks=2"


def test_the_whole_is_a_table() -> None:
    out = io.StringIO()
    trace = {"trace_id": "ab", "request_id": "req_1", "started_at": 0.0, "duration_s": 1.0, "spans": SPANS}
    show(trace, Console(file=out, width=160))
    lines = out.getvalue().splitlines()
    assert "trace ab" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == ["root", "chat", "queue", "decode"]

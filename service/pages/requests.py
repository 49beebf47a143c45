"""The last requests in a line each, and how long they waited for their first token. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .. import telemetry
from ..trace import Trace

LISTED = 50
LATENCY_WINDOW_S = 900.0


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request. `id` is its trace's; what is absent is not known, or did not happen."""

    id: str
    at: float
    what: str
    status: int
    duration_s: float
    first_token_s: float | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    resumed: bool = False
    canary: bool = False


class FirstToken(msgspec.Struct, frozen=True):
    """Seconds from a request's arrival to its first token, over `count` requests of the last minutes."""

    p50: float
    p95: float
    count: int


def rows(traces: Sequence[Trace]) -> list[Row]:
    """In the same order."""
    return [row(trace) for trace in traces]


def row(trace: Trace) -> Row:
    """Of a trace that has ended."""
    root = trace.root.attributes
    said = {} if trace.operation is None else trace.operation.attributes
    return Row(
        id=trace.id,
        at=trace.wall_ns(trace.root.start) / 1e9,
        what=trace.root.name,
        status=_number(root.get(telemetry.HTTP_STATUS)) or 0,
        duration_s=round(trace.duration_s, 4),
        first_token_s=_first_token_s(trace),
        input_tokens=_number(said.get(telemetry.USAGE_INPUT)),
        cached_tokens=_number(said.get(telemetry.USAGE_CACHED)),
        output_tokens=_number(said.get(telemetry.USAGE_OUTPUT)),
        error=_text(root.get(telemetry.ERROR_TYPE) or said.get(telemetry.ERROR_TYPE)),
        resumed=trace.resumed,
        canary=is_canary(trace),
    )


def first_token(traces: Sequence[Trace], now: float) -> FirstToken | None:
    """Of those that ended lately, canaries left out; `now` is on the traces' own clock."""
    lately = [trace for trace in traces if (trace.root.end or now) >= now - LATENCY_WINDOW_S and not is_canary(trace)]
    waits = sorted(wait for wait in map(_first_token_s, lately) if wait is not None)
    if not waits:
        return None
    return FirstToken(_quantile(waits, 0.5), _quantile(waits, 0.95), len(waits))


def is_canary(trace: Trace) -> bool:
    """The watchdog sent it."""
    return bool(trace.root.attributes.get(telemetry.CANARY))


def _first_token_s(trace: Trace) -> float | None:
    wait = None if trace.operation is None else trace.operation.attributes.get(telemetry.LATENCY_FIRST_TOKEN)
    return round(wait, 4) if isinstance(wait, float) else None


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None

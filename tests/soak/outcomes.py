"""Outcomes as tests need them: one that went well, and what differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoker.soak.bench.figures import METRICS, Seen
from stoker.soak.lag import Lag
from stoker.soak.outcome import Outcome

GOOD = Outcome(
    workload="chat",
    conversation=0,
    turn=0,
    intended=0.0,
    sent=0.0,
    first_token=1.0,
    ended=3.0,
    gaps=(0.5, 0.5, 0.5, 0.5),
    prompt_tokens=100,
    cached_tokens=40,
    completion_tokens=5,
    finish_reason="stop",
    text="Hello to you there.",
)


def outcome(**changes: Any) -> Outcome:
    return replace(GOOD, **changes)


def seen(*outcomes: Outcome, window_s: float = 10.0, **changes: Any) -> Seen:
    return replace(Seen(outcomes, window_s, Lag()), **changes)


def figure(key: str, sitting: Seen) -> float | None:
    return next(metric for metric in METRICS if metric.key == key).of(sitting)

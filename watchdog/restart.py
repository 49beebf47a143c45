"""When a child that ended is started again: pure decisions from its past, a clock reading and a random draw.

The shape is Erlang's restart intensity (https://www.erlang.org/doc/system/sup_princ.html#maximum-restart-intensity):
more than `intensity` restarts within `period_s` mean that restarting does not help. Where Erlang's supervisor gives
up, ours opens a circuit: it tries once in a while, ever more seldom, because nobody may be there to start it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Restart

PROBE_MAX_S = 3600.0
_MAX_DOUBLINGS = 64  # far past every bound, and still a float


@dataclass(frozen=True)
class Past:
    """What a decision remembers of those before it; times are seconds of one monotonic clock."""

    restarts: tuple[float, ...] = ()
    """When the restarts that may still count were due, oldest first."""
    probes: int = 0
    """Tries since the circuit opened; 0 means that it is closed."""

    @property
    def circuit_open(self) -> bool:
        return self.probes > 0


@dataclass(frozen=True)
class Decision:
    """Start the child again after `wait_s`; `past` goes into the next decision."""

    wait_s: float
    past: Past


def decide(past: Past, now: float, ready_for_s: float, settings: Restart, draw: float) -> Decision:
    """What to do about a death at `now` of a child that had been ready for `ready_for_s` (0: never was).

    `draw` is uniform in [0, 1). A probe that stayed ready for a whole period has closed the circuit. The backoff keeps
    two starts apart, so the time that the child was ready counts towards it: one that worked is back at once.
    """
    if past.circuit_open:
        if ready_for_s < settings.period_s:
            return _probe(past.probes, settings)
        past = Past()
    recent = tuple(due for due in past.restarts if due > now - settings.period_s)
    if len(recent) >= settings.intensity:
        return _probe(0, settings)
    wait_s = max(0.0, backoff_s(len(recent), settings, draw) - ready_for_s)
    return Decision(wait_s, Past(restarts=(*recent, now + wait_s)))


def backoff_s(restarts_before: int, settings: Restart, draw: float) -> float:
    """Exponential wait, bounded by `backoff_max_s`, of which `backoff_jitter` is random."""
    longest = min(_doubled(settings.backoff_initial_s, restarts_before), settings.backoff_max_s)
    return longest * (1 - settings.backoff_jitter * draw)


def _probe(probes_before: int, settings: Restart) -> Decision:
    wait_s = min(_doubled(settings.probe_s, probes_before), max(PROBE_MAX_S, settings.probe_s))
    return Decision(wait_s, Past(probes=probes_before + 1))


def _doubled(seconds: float, times: int) -> float:
    return seconds * 2.0 ** min(times, _MAX_DOUBLINGS)

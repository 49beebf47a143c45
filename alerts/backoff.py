"""How long to wait before something is sent again. Pure."""

from __future__ import annotations

FIRST_S = 5.0
LONGEST_S = 3600.0
PROBE_FIRST_S = 5.0
PROBE_LONGEST_S = 300.0


def retry_after(failures: int, jitter: float) -> float:
    """After so many failures of a delivery, doubling; `jitter` from 0 to 1 spreads it over the upper half."""
    return _doubled(FIRST_S, failures, LONGEST_S) * (0.5 + 0.5 * jitter)


def probe_after(failures: int, jitter: float) -> float:
    """Until a receiver whose circuit is open is tried again, after so many tries in vain."""
    return _doubled(PROBE_FIRST_S, failures, PROBE_LONGEST_S) * (0.5 + 0.5 * jitter)


def _doubled(first_s: float, times: int, longest_s: float) -> float:
    # Bounded before it is a power, so that a receiver that is away for ever makes no number too large.
    return min(longest_s, first_s * 2.0 ** min(times - 1, 32))

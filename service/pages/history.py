"""The last minutes of what is worth a curve, one value a second."""

from __future__ import annotations

from collections import deque

LENGTH = 300
RATE_OVER = 5
"""Values that a rate is taken over: tokens come in steps, and a curve of single seconds would only show those."""


class History:
    """How many tokens a second were written."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, float]] = deque(maxlen=RATE_OVER + 1)
        self._rates: deque[float] = deque(maxlen=LENGTH)

    def note(self, at: float, tokens: float) -> None:
        """`tokens` is their count so far, `at` in seconds of a clock that only goes forward."""
        self._counts.append((at, tokens))
        (since, before), (until, now) = self._counts[0], self._counts[-1]
        self._rates.append(0.0 if until <= since else (now - before) / (until - since))

    @property
    def rate(self) -> float:
        """Tokens a second, lately."""
        return self._rates[-1] if self._rates else 0.0

    @property
    def rates(self) -> list[float]:
        """Oldest first."""
        return [round(rate, 2) for rate in self._rates]

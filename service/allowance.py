"""What one API key may take: requests at once, and tokens a minute. Pure, but for what each has left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Allowance:
    """None is no bound. Tokens are those of prompts, cached ones too, and of answers."""

    requests: int | None = None
    tokens_per_minute: int | None = None


UNBOUNDED = Allowance()


class Meter:
    """A bucket of tokens for each client, filled steadily up to a minute's worth.

    How long an answer gets is known at its end, so a bucket may be overdrawn; then its client waits until it is not.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def spend(self, key: str, allowance: Allowance, tokens: int) -> None:
        per_minute = allowance.tokens_per_minute
        if per_minute is not None:
            self._buckets[key] = (self._level(key, per_minute) - tokens, self._clock())

    def wait_s(self, key: str, allowance: Allowance) -> float:
        """How long until it may ask again; 0 is now."""
        per_minute = allowance.tokens_per_minute
        if per_minute is None:
            return 0.0
        level = self._level(key, per_minute)
        return 0.0 if level >= 1 else (1 - level) * 60 / per_minute

    def _level(self, key: str, per_minute: int) -> float:
        level, at = self._buckets.get(key, (float(per_minute), 0.0))
        return min(level + (self._clock() - at) * per_minute / 60, float(per_minute))

"""What several measurements of one thing say together: their median, and between which values it lies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
_RESAMPLES = 2000
_SEED = 20_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of `repeats` values, and its 95 % interval; None where one value is all there is."""

    median: float
    low: float | None
    high: float | None
    repeats: int


def exact(value: float) -> Estimate:
    """What is computed, not measured: it would be the same again."""
    return Estimate(value, value, value, 1)


def estimate(values: Iterable[float | None]) -> Estimate | None:
    """By the percentile bootstrap (Efron 1979). None if nothing was measured.

    Of three values the interval is from the least to the greatest: that is all they say.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    median = float(np.median(known))
    if len(known) == 1:
        return Estimate(median, None, None, 1)
    drawn = np.random.default_rng(_SEED).choice(np.array(known), (_RESAMPLES, len(known)))
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(np.median(drawn, axis=1), [tail, 100 - tail])
    return Estimate(median, float(low), float(high), len(known))


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value that this share lies below, interpolated; None of nothing."""
    return float(np.quantile(values, share)) if values else None

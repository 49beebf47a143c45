"""Whether a series rises, and how fast at least: rank statistics, which outliers do not move.

Slope: Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968). Test: Mann (1945) and
Kendall (1975), with the variance of Hamed and Rao, "A modified Mann-Kendall trend test for autocorrelated data",
Journal of Hydrology 204 (1998): memory readings follow one another, and the plain test takes slow wander for a trend.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]

# Confidence of the slope's lower bound, one-sided, and level at which an autocorrelation counts (two-sided).
BOUND_Z = NormalDist().inv_cdf(0.99)
CORRELATION_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Trend:
    """`slope` and `lower`, its one-sided 99 % bound, in y a unit of t; `z` and one-sided `p` of the corrected test."""

    slope: float
    lower: float
    z: float
    p: float


def trend(t: Series, y: Series) -> Trend:
    """The trend of at least three points with different times."""
    n = len(t)
    i, j = _pairs(n)
    rise = y[j] - y[i]
    slopes = np.sort(rise / (t[j] - t[i]))
    slope = float(np.median(slopes))
    s = float(np.sign(rise).sum())
    sigma = float(np.sqrt(n * (n - 1) * (2 * n + 5) / 18 * _correction(y - slope * t)))
    z = (s - np.sign(s)) / sigma
    lower = slopes[max(int((len(slopes) - BOUND_Z * sigma) / 2), 0)]
    return Trend(slope, float(lower), float(z), 1 - NormalDist().cdf(float(z)))


@cache
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(n, 1)


def _correction(detrended: Series) -> float:
    """By how much significant autocorrelation of the ranks widens the variance of S; never below 1 here, because
    a series that swings back is no better evidence than one that does not."""
    n = len(detrended)
    ranks = detrended.argsort().argsort().astype(np.float64)
    ranks -= ranks.mean()
    power = float(ranks @ ranks)
    if power == 0:
        return 1.0
    lags = np.arange(1, n - 2)
    correlation = np.correlate(ranks, ranks, "full")[n : n + len(lags)] / power
    correlation[np.abs(correlation) < CORRELATION_Z / np.sqrt(n)] = 0
    weights = (n - lags) * (n - lags - 1) * (n - lags - 2)
    return max(1 + 2 / (n * (n - 1) * (n - 2)) * float(weights @ correlation), 1.0)


def without_load(t: Series, y: Series, loads: Series) -> Series:
    """y less what the load explains, at the load's mean; `loads` is points by quantities.

    Load and time are fitted together and only the load's part is taken away, so that a rise that merely coincides with
    a busier hour stays a rise. No load makes memory smaller: such a fit is chance.
    """
    varied = loads[:, np.ptp(loads, axis=0) > 0]
    if varied.shape[1] == 0:
        return y
    centred = (varied - varied.mean(axis=0)) / varied.std(axis=0)
    time = (t - t.mean()) / np.ptp(t)
    design = np.column_stack([np.ones_like(t), time, centred])
    weights: Series = np.linalg.lstsq(design, y, rcond=1e-6)[0][2:]
    return np.asarray(y - centred @ np.maximum(weights, 0.0))


def rises_steadily(t: Series, y: Series, segments: int = 6, most: float = 0.4) -> bool:
    """Whether the medians of as long segments rise in all steps but one, and none makes up over `most` of the growth.

    A new plateau rises once; a leak goes on rising.
    """
    cuts = np.searchsorted(t, np.linspace(t[0], t[-1], segments + 1)[1:-1])
    parts = np.split(y, cuts)
    if min(len(part) for part in parts) == 0:
        return False
    medians = np.array([np.median(part) for part in parts])
    steps = np.diff(medians)
    growth = medians[-1] - medians[0]
    return bool(growth > 0 and (steps > 0).sum() >= len(steps) - 1 and steps.max() <= most * growth)

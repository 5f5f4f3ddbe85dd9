"""Likelihood ratios of binomial counts, and the alternatives that a level is tested against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.core.intervals import Floats

DISTANCES = np.array([0.02, 0.035, 0.06, 0.10, 0.17, 0.30])
"""How far alternatives lie beyond the boundary: about equal steps of information, so that no
violation costs much more labels than if its size had been known."""

_EDGE = 0.01  # alternatives stay inside (0, 1): one label must not decide alone


def log_likelihood_ratio(
    n: npt.ArrayLike, k: npt.ArrayLike, null: npt.ArrayLike, alternative: npt.ArrayLike
) -> Floats:
    """Log likelihood ratio k ln(p1 / p0) + (n - k) ln((1 - p1) / (1 - p0)), broadcast, in nats.

    It is the log e-value of k hits in n trials for P(hit) = p1 against p0, both inside (0, 1):
    E[e] stays at most 1 for every rate at least p0 if p1 < p0, at most p0 if p1 > p0.

    Example:
        >>> print(f"{log_likelihood_ratio(10, 7, 0.80, 0.70):.6f}")
        0.281676
    """
    trials, hits = np.asarray(n, np.float64), np.asarray(k, np.float64)
    p0, p1 = np.asarray(null, np.float64), np.asarray(alternative, np.float64)
    ratio: Floats = hits * np.log(p1 / p0) + (trials - hits) * np.log1p((p0 - p1) / (1 - p0))
    return ratio


def level_alternatives(boundary: npt.ArrayLike, sign: int) -> Floats:
    """Rates beyond a boundary to bet on, shape (..., 6), weighted equally.

    Args:
        boundary: rates inside (0, 1).
        sign: -1 where lower rates violate (a floor), 1 where higher ones do (a ceiling).
    """
    c = np.asarray(boundary, np.float64)[..., None]
    low, high = np.minimum(_EDGE, c / 2), np.maximum(1 - _EDGE, (1 + c) / 2)
    alternatives: Floats = np.clip(c + sign * DISTANCES, low, high)
    return alternatives

"""Intervals of a rate, and of the difference and ratio of two rates, in closed form on arrays.

Example:
    >>> lower, upper = wilson(5 / 6, 6)
    >>> f"{lower:.3f} {upper:.3f}"
    '0.436 0.970'
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Z95 = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


def z_value(confidence: float) -> float:
    """Return the normal quantile z with P(-z <= Z <= z) = confidence, for 0 < confidence < 1.

    Example:
        >>> round(z_value(0.95), 6)
        1.959964
    """
    return NormalDist().inv_cdf((1 + confidence) / 2)


def divide(numerator: npt.ArrayLike, denominator: npt.ArrayLike, empty: float = np.nan) -> Floats:
    """Return quotients, broadcast; ``empty`` (NaN: undefined) where the denominator is 0."""
    top, bottom = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    if np.count_nonzero(bottom) == bottom.size:  # the usual case, quicker without a mask
        return np.asarray(top / bottom)
    shape = top.shape if top.shape == bottom.shape else np.broadcast(top, bottom).shape
    quotients: Floats = np.empty(shape, np.float64)
    quotients.fill(empty)
    np.divide(top, bottom, out=quotients, where=bottom != 0)
    return quotients


def wilson(point: npt.ArrayLike, n: npt.ArrayLike, z: float = Z95) -> tuple[Floats, Floats]:
    """Return Wilson's (lower, upper) of a rate: all P with |point - P| <= z sqrt(P(1-P) / n).

    Args:
        point: rates in [0, 1]; NaN gives NaN bounds, except without trials.
        n: trials, real-valued (also an effective number), broadcast with ``point``;
            0 gives the bounds 0 and 1.
        z: standard normal quantile, above 0.

    Returns:
        Lower and upper bounds: always 0 <= lower <= point <= upper <= 1.

    Raises:
        ValueError: for negative trials.

    Source: Wilson (1927), JASA 22.
    """
    trials = np.asarray(n, np.float64)
    if np.count_nonzero(trials < 0):
        raise ValueError("trials cannot be negative")
    rate = np.where(trials == 0, 0.5, np.asarray(point, np.float64))
    # All terms are multiplied by n, so that n = 0 is no special case.
    hits = trials * rate
    middle = hits + z * z / 2
    half = z * np.sqrt(hits * (1 - rate) + z * z / 4)
    scale = trials + z * z
    # At 0 and 1 rounding would push the bound past the point.
    lower: Floats = ((middle - half) / scale).clip(0, rate)
    upper: Floats = ((middle + half) / scale).clip(rate, 1)
    return lower, upper


def mover(  # noqa: PLR0917 - two points with their bounds
    t1: npt.ArrayLike,
    l1: npt.ArrayLike,
    u1: npt.ArrayLike,
    t2: npt.ArrayLike,
    l2: npt.ArrayLike,
    u2: npt.ArrayLike,
) -> tuple[Floats, Floats]:
    """Return (lower, upper) of t1 - t2 for independent rates t1, t2 with intervals l1-u1, l2-u2.

    ``lower = d - sqrt((t1-l1)^2 + (u2-t2)^2)``, ``upper = d + sqrt((u1-t1)^2 + (t2-l2)^2)``.
    If a point is NaN but its bounds are known (a rate that is not identified), the
    difference is between l1 - u2 and u1 - l2. Unknown bounds give NaN.

    Source: Newcombe (1998), Statistics in Medicine 17; Zou and Donner (2008), ibid. 27.
    """
    t1, l1, u1, t2, l2, u2 = (np.asarray(x, np.float64) for x in (t1, l1, u1, t2, l2, u2))
    open_points = np.isnan(t1 - t2)
    lower = np.where(open_points, l1 - u2, t1 - t2 - np.hypot(t1 - l1, u2 - t2))
    upper = np.where(open_points, u1 - l2, t1 - t2 + np.hypot(u1 - t1, t2 - l2))
    return lower, upper


def ratio_interval(  # noqa: PLR0917 - two points with their bounds
    t1: npt.ArrayLike,
    l1: npt.ArrayLike,
    u1: npt.ArrayLike,
    t2: npt.ArrayLike,
    l2: npt.ArrayLike,
    u2: npt.ArrayLike,
) -> tuple[Floats, Floats]:
    """Return (lower, upper) of t1 / t2 for independent rates t1, t2 with intervals l1-u1, l2-u2.

    If a point is NaN but its bounds are known, the ratio is between l1 / u2 and u1 / l2. Unknown
    bounds give NaN. Only the upper bound is NaN if t2 or l2 is 0, because the ratio then has a
    lower bound but no upper one.

    Source: Donner and Zou (2012), Statistical Methods in Medical Research 21 (MOVER-R).
    """
    t1, l1, u1, t2, l2, u2 = (np.asarray(x, np.float64) for x in (t1, l1, u1, t2, l2, u2))
    ratio, product = divide(t1, t2), t1 * t2
    low1, high2 = l1 * (2 * t1 - l1), u2 * (2 * t2 - u2)
    high1, low2 = u1 * (2 * t1 - u1), l2 * (2 * t2 - l2)
    # The published lower bound with its numerator made rational: no 0 / 0 if u2 = 2 t2.
    lower = divide(low1, product + _root(product * product - low1 * high2), empty=0)
    upper = divide(product + _root(product * product - high1 * low2), low2)
    open_points = np.isnan(t1 - t2)
    lower = np.where(open_points, divide(l1, u2), np.fmin(lower, ratio))
    return lower, np.where(open_points, divide(u1, l2), np.maximum(upper, ratio))


def _root(square: Floats) -> Floats:
    """Return square roots; numbers below 0, which rounding causes, count as 0."""
    return np.sqrt(np.maximum(square, 0))

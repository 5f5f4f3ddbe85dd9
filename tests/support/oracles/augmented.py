"""Bets on sampled labels by the formulas, one stratum and one level after another.

Slow and plain: what the shared tables of :mod:`monitor.detection` are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from scipy.optimize import minimize_scalar

FRACTIONS = (0.02, 0.05, 0.12, 0.25, 0.5, 0.9)


@dataclass(frozen=True)
class Stratum:
    """Counts of one stratum.

    Attributes:
        auto: D.
        f: forecast of P(y).
        audit: audit rate.
        counts: decisions not labelled, labelled y, labelled not y.
    """

    auto: bool
    f: float
    audit: float
    counts: tuple[float, float, float]

    def z(self, limit: float) -> tuple[float, float, float]:
        """By outcome, in the order of ``counts``."""
        weight = 1 / self.audit
        y, no = self.f + (1 - self.f) * weight, self.f - self.f * weight
        excess = self.auto - limit
        return excess * self.f, excess * y, excess * no


def level_log_e(strata: Sequence[Stratum], limit: float, sign: int) -> list[tuple[float, float]]:
    """(stake, log e) for every fraction; sign +1: above the limit, -1: below."""
    largest = max(-sign * z for stratum in strata for z in stratum.z(limit)[1:])
    stakes = [fraction / largest for fraction in FRACTIONS]
    return [(stake, log_e(strata, limit, sign * stake)) for stake in stakes]


def log_e(strata: Sequence[Stratum], limit: float, stake: float) -> float:
    """Sum of log(1 + stake z) over the decisions."""
    return sum(
        count * log(1 + stake * z)
        for stratum in strata
        for count, z in zip(stratum.counts, stratum.z(limit), strict=True)
        if count
    )


def arm(t: float, u: float, v: float, audit: tuple[float, float]) -> list[Stratum]:
    """Expected counts of one decision of an arm with TPR t, P(ready) u, FPR v."""
    s = u * t + (1 - u) * v
    strata = []
    for auto, share, f, pi in (
        (True, s, u * t / s, audit[0]),
        (False, 1 - s, u * (1 - t) / (1 - s), audit[1]),
    ):
        counts = (share * (1 - pi), share * pi * f, share * pi * (1 - f))
        strata.append(Stratum(auto, f, pi, counts))
    return strata


def best_stake(alternative: Sequence[Stratum], limit: float, sign: int, safe: float = 1) -> float:
    """The stake that grows fastest if the alternative holds; 0 on its innocent side."""
    drift = sum(
        count * z * sign
        for stratum in alternative
        for count, z in zip(stratum.counts, stratum.z(limit), strict=True)
    )
    if drift <= 0:
        return 0.0
    largest = max(-sign * z for stratum in alternative for z in stratum.z(limit)[1:])
    found = minimize_scalar(
        lambda stake: -log_e(alternative, limit, sign * stake),
        bounds=(0, safe / largest * (1 - 1e-9)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(found.x)


def gap_log_e(
    a: tuple[Sequence[Stratum], Sequence[Stratum]],
    b: tuple[Sequence[Stratum], Sequence[Stratum]],
    levels: Sequence[float],
    step: float,
    delta: float,
) -> tuple[float, float]:
    """(log e, the level where it is attained) that a - b > delta.

    Args:
        a: what was counted, and the alternative.
        b: the same.
        levels: lower ends of the intervals.
        step: their width.
        delta: limit of the gap.
    """
    found = []
    for c in levels:
        upper = c + step + delta
        above = log_e(a[0], upper, best_stake(a[1], upper, 1))
        below = log_e(b[0], c, -best_stake(b[1], c, -1))
        found.append((above + below, c))
    return min(found)

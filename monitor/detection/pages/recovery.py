"""Time to resolve a breach after its cause is repaired, at the present rate of labels.

A breach is resolved when the upper one-sided 95 % bound of the gap, over the cohorts since it last
crossed, is within the limit and both sides have the contract's minimum support
(:mod:`monitor.detection.pages.budget`). A repaired slice has its reference's rate, so the bound is
that of two equal rates; supports grow as their published bands say. Only published numbers are
used.

Example:
    >>> from monitor.core.contract import Metric
    >>> arms = PowerDesign(Metric.TPR, *(np.array([number]) for number in (0.9, 700.0, 7000.0)))
    >>> days_to_resolve(arms, Fraction("0.10"), min_support=50)
    [1]
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from monitor.core.intervals import mover, wilson
from monitor.detection.label_power import PowerDesign
from monitor.detection.pages.budget import Z_ONE_SIDED

LONGEST = 7
"""Largest number of days of cohorts that can resolve a breach."""

_WEEK = 7
_SLACK = 1e-12


def days_to_resolve(arms: PowerDesign, limit: Fraction, min_support: int) -> list[int | None]:
    """Return per slice the days of cohorts after a repair until its breach can be resolved.

    None where a rate is hidden, or where seven days of labels are not enough: then only people can
    resolve it.

    Args:
        arms: slices and references as published.
        limit: limit of the contract on the gap.
        min_support: minimum support that both sides need.
    """
    days = np.arange(1, LONGEST + 1)[:, None] / _WEEK
    slice_support, reference_support = days * arms.slice_weekly, days * arms.reference_weekly
    rate = np.clip(arms.reference_rate, 0, 1) + np.zeros_like(days)
    sides = [
        (rate, *wilson(rate, support, Z_ONE_SIDED))
        for support in (slice_support, reference_support)
    ]
    worse, better = sides if not arms.metric.harmed_by_less else sides[::-1]
    _, upper = mover(*worse, *better)
    over = (np.minimum(slice_support, reference_support) >= min_support) & (
        upper <= float(limit) + _SLACK
    )
    return [
        row.index(True) + 1 if any(row) else None  # hidden rates are NaN, which is never over
        for row in over.T.tolist()
    ]

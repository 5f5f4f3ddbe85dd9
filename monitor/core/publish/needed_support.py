"""Support that is needed to show that a contract's limit is kept.

Verdicts are decided on the bands of tables. Below a certain support a gap cannot pass, even if
both rates are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from monitor.core.contract import Contract, Limits
from monitor.core.metric import USUAL_METRICS, Metric
from monitor.core.publish.calendar_rates import ComparedRates
from monitor.core.rates.gaps import comparisons, gap, simultaneous_z
from monitor.core.rates.tolerance import Tolerance
from monitor.core.tables.bands import Coarseness, edges, row_rule
from monitor.core.tables.counted import Counted
from monitor.core.tables.rates import selection_estimate

RATES = (0.9, 0.5)
"""Rates for which support is given: a router that mostly serves, and the hardest case."""

_LARGEST = 10_000_000


@dataclass(frozen=True, slots=True)
class Displayable:
    """Support that slice and reference each need for a gap of 0 to be within its limit.

    Attributes:
        own: the slice or group-by with this limit of its own; empty for the contract's limit.
        metric: metric of the gap.
        limit: the limit.
        at_rates: support at the rates of :data:`RATES`; None is never.
        ratio: True if the limit is on the ratio of two rates, not on their gap.
    """

    own: str
    metric: Metric
    limit: Fraction
    at_rates: tuple[int | None, ...]
    ratio: bool = False


def displayable(contract: Contract, largest_group: int) -> tuple[Displayable, ...]:
    """Return the support needed to show each limited gap and ratio of a contract as kept.

    Precision is computed from TPR and FPR, and has no support of its own.

    Args:
        contract: its k and limits.
        largest_group: number of slices of the largest group-by, whose bounds hold together.
    """
    z = simultaneous_z(comparisons(largest_group, "complement"))
    supports = []
    for (own, limits), metric in product(_named_limits(contract), USUAL_METRICS):
        for allowed, limit in (
            (Tolerance.of_gap, limits.max_gap(metric)),
            (Tolerance.of_ratio, limits.min_ratio(metric)),
        ):
            if limit is not None:
                tolerance = allowed(limit)
                at_rates = tuple(
                    _smallest_support(contract.k, tolerance, z, rate) for rate in RATES
                )
                supports.append(Displayable(own, metric, limit, at_rates, tolerance.ratio))
    return tuple(supports)


def _named_limits(contract: Contract) -> Iterator[tuple[str, Limits]]:
    """Yield ("", limits of the contract), then (name, limits) of each group-by and slice."""
    yield "", contract.limits
    for own_limits in contract.own_limits:
        yield own_limits.slice or own_limits.group_by, own_limits.alone(contract.limits)


def _smallest_support(k: int, tolerance: Tolerance, z: float, rate: float) -> int | None:
    """Return the smallest size from which two equal rates pass, or None."""
    sizes = edges(k, Coarseness.FINE)
    sizes = sizes[(sizes >= 2 * k - 1) & (sizes < _LARGEST)]
    hits = np.round(sizes * rate).astype(np.int64)
    counts = Counted.from_bands(row_rule(np.stack([hits, sizes - hits], axis=1), k))
    shown = selection_estimate(counts, np.array([True, False])).at(z)
    gaps = gap(*ComparedRates(Metric.SELECTION, shown, shown).columns())
    beyond = np.flatnonzero(~tolerance.within(gaps))
    first = int(beyond[-1]) + 1 if len(beyond) else 0
    return int(sizes[first]) if first < len(sizes) else None

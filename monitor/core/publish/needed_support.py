"""From which support on a contract's limit can be seen to be kept.

Verdicts are decided on the bands that tables show. Below a certain support a gap cannot pass, even
if both rates are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from monitor.core.contract import USUAL_METRICS, Contract, Limits, Metric
from monitor.core.publish.calendar_rates import ComparedRates
from monitor.core.rates.gaps import comparisons, gap, simultaneous_z
from monitor.core.rates.tolerance import Tolerance
from monitor.core.tables.bands import Coarseness, edges, row_rule
from monitor.core.tables.counted import Counted
from monitor.core.tables.rates import selection_rate

RATES = (0.9, 0.5)
"""Rates that support is given for: a router that mostly serves, and the hardest one to tell."""

_LARGEST = 10_000_000


@dataclass(frozen=True, slots=True)
class Displayable:
    """Support that slice and reference each need for a gap of 0 to be within its limit.

    Attributes:
        own: the slice, or else the group-by, that has this limit as its own; empty for the
            contract's.
        metric: of the gap.
        limit: the contract's.
        at_rates: by the rates of :data:`RATES`; None is never.
        coded: where fewer than k were missed, so that both rates are shown as ``at least``.
        ratio: whether the limit is on the ratio of two rates, and not on their gap.
    """

    own: str
    metric: Metric
    limit: Fraction
    at_rates: tuple[int | None, ...]
    coded: int | None
    ratio: bool = False


def displayable(contract: Contract, largest_group: int) -> tuple[Displayable, ...]:
    """The support each limited gap and ratio of a contract needs.

    Precision is computed from TPR and FPR, and has no support of its own.

    Args:
        contract: its k and limits.
        largest_group: slices of the largest group-by: bounds inside one hold together.
    """
    z = simultaneous_z(comparisons(largest_group, "complement"))
    found = []
    for (own, limits), metric in product(_limits(contract), USUAL_METRICS):
        for allowed, limit in (
            (Tolerance.of_gap, limits.max_gap(metric)),
            (Tolerance.of_ratio, limits.min_ratio(metric)),
        ):
            if limit is not None:
                kept = allowed(limit)
                at_rates = tuple(_smallest(contract.k, kept, z, rate) for rate in RATES)
                coded = _smallest(contract.k, kept, z, None)
                found.append(Displayable(own, metric, limit, at_rates, coded, kept.ratio))
    return tuple(found)


def _limits(contract: Contract) -> Iterator[tuple[str, Limits]]:
    """The contract's limits, and those that group-bys and slices have of their own."""
    yield "", contract.limits
    for own in contract.own_limits:
        yield own.slice or own.group_by, own.alone(contract.limits)


def _smallest(k: int, kept: Tolerance, z: float, rate: float | None) -> int | None:
    """The smallest size from which on two equal rates pass; a rate of None: k - 1 were missed."""
    sizes = edges(k, Coarseness.FINE)
    sizes = sizes[(sizes >= 2 * k - 1) & (sizes < _LARGEST)]
    hits = sizes - (k - 1) if rate is None else np.round(sizes * rate).astype(np.int64)
    counts = Counted.from_bands(row_rule(np.stack([hits, sizes - hits], axis=1), k))
    shown = selection_rate(counts, np.array([True, False]), z)
    gaps = gap(*ComparedRates(Metric.SELECTION, shown, shown).columns())
    beyond = np.flatnonzero(~kept.within(gaps))
    first = int(beyond[-1]) + 1 if len(beyond) else 0
    return int(sizes[first]) if first < len(sizes) else None

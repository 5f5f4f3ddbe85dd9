"""From which support on what is shown can bear out a contract's limit.

Verdicts are decided on exact counts; a reader has rounded rates, bands and codes. Below a certain
support these cannot show a gap to be within its limit, even if both rates are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from monitor.core.contract import Contract, Metric
from monitor.core.counts.cells import Int64s
from monitor.core.privacy.bands import Precision, edges
from monitor.core.publish.suppression import ShownColumns, show_gaps
from monitor.core.rates.gaps import comparisons, simultaneous_z

RATES = (0.9, 0.5)
"""Rates that support is given for: a router that mostly serves, and the hardest one to tell."""

_LARGEST = 10_000_000


@dataclass(frozen=True, slots=True)
class Displayable:
    """Support that slice and reference each need for a gap of 0 to be seen within its limit.

    Attributes:
        metric: of the gap.
        limit: the contract's.
        at_rates: by the rates of :data:`RATES`; None is never.
        coded: where fewer than k were missed, so that both rates are shown as ``at least``.
    """

    metric: Metric
    limit: Fraction
    at_rates: tuple[int | None, ...]
    coded: int | None


def displayable(contract: Contract, largest_group: int) -> tuple[Displayable, ...]:
    """The support each limited gap of a contract needs.

    Args:
        contract: its k and limits.
        largest_group: slices of the largest group-by: bounds inside one hold together.
    """
    precision = Precision(contract.k, contract.synthetic and contract.k == 1)
    z = simultaneous_z(comparisons(largest_group, "complement"))
    found = []
    for metric in Metric:
        limit = contract.limits.max_gap(metric)
        if limit is not None:
            at_rates = tuple(_smallest(precision, float(limit), z, rate) for rate in RATES)
            coded = _smallest(precision, float(limit), z, None)
            found.append(Displayable(metric, limit, at_rates, coded))
    return tuple(found)


def _smallest(precision: Precision, limit: float, z: float, rate: float | None) -> int | None:
    """The smallest band from which on two equal rates show a gap within the limit."""
    bands = np.array([edge for edge in edges(precision.k) if edge < _LARGEST], np.int64)
    bands = bands[bands >= precision.smallest]
    shown = _shown(precision, bands, rate)
    gaps = show_gaps(shown, shown, z, precision)
    beyond = np.flatnonzero(gaps.upper > limit + 1e-12)  # bounds shrink, but step by step
    first = int(beyond[-1]) + 1 if len(beyond) else 0
    return int(bands[first]) if first < len(bands) else None


def _shown(precision: Precision, bands: Int64s, rate: float | None) -> ShownColumns:
    none = np.full(len(bands), np.nan)
    at_least = precision.down(1 - (precision.k - 1) / bands)
    return ShownColumns(
        metric=Metric.TPR,
        shown=np.ones(len(bands), bool),
        value=none if rate is None else precision.rate(np.full(len(bands), rate), bands),
        at_least=at_least if rate is None else none,
        at_most=none,
        support=bands,
        trials=bands.astype(np.float64),
        step=precision.step(bands),
    )

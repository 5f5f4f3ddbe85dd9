"""Agreement of two reviewers of one decision: Cohen's kappa.

With p_o the share of pairs that agree and p_e the share that would agree by chance, from each
reviewer's own share of ``ready``:

    kappa = (p_o - p_e) / (1 - p_e)

1 is agreement, 0 is chance. Slices whose kappas differ much cannot be compared by rates that are
based on these reviews.

Example:
    >>> low, high = np.array([110, 55, 11]), np.array([120, 65, 21])
    >>> shown = shown_agreement(low, high, 11)
    >>> shown.at_least, shown.kappa, shown.lower, shown.upper, shown.wrong
    (None, 0.82, 0.65, 0.95, 0.07)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Z95, Floats, divide
from monitor.core.metric import Metric
from monitor.core.publish.calendar_rows import rounded_down, rounded_up
from monitor.core.publish.missing_labels import rate_if_wrong
from monitor.core.publish.snapshot import ShownAgreement, ShownRate, SliceRow


@dataclass(frozen=True, slots=True)
class Pairs:
    """Numbers of decisions that two reviewers labelled: both ready, both not ready, or apart.

    Numbers are integers, or the middles of bands.

    Attributes:
        both: both reviewers say ready.
        neither: both say not ready.
        apart: the two disagree.
    """

    both: float
    neither: float
    apart: float

    @property
    def table(self) -> Floats:
        """Pairs by first x second reviewer, shape (2, 2), the disagreements in equal halves."""
        return np.array([[self.both, self.apart / 2], [self.apart / 2, self.neither]])


def cohens_kappa(tables: Floats) -> tuple[Floats, Floats]:
    """Return Cohen's kappa and its standard error for each table of pairs, two arrays.

    NaN without pairs, and if both reviewers put everything into one class, where chance agrees
    fully.

    Args:
        tables: shape (..., C, C): pairs by the class of each reviewer.

    Source: Cohen (1960), Educational and Psychological Measurement 20; Fleiss, Cohen and Everitt
    (1969), Psychological Bulletin 72 (large-sample variance).
    """
    n = tables.sum(axis=(-2, -1))
    p = divide(tables, n[..., None, None])
    rows, columns = p.sum(axis=-1), p.sum(axis=-2)
    diagonal = np.diagonal(p, axis1=-2, axis2=-1)
    agree, chance = diagonal.sum(axis=-1), (rows * columns).sum(axis=-1)
    rest = np.where(chance < 1, 1 - chance, np.nan)
    kappa = (agree - chance) / rest
    disagreement = 1 - kappa
    # Cell (i, j) is weighted by the margins of class i as second and of class j as first choice.
    margins = columns[..., :, None] + rows[..., None, :]
    on = (diagonal * (1 - (rows + columns) * disagreement[..., None]) ** 2).sum(axis=-1)
    squares = p * margins**2
    off = disagreement**2 * (
        squares.sum(axis=(-2, -1)) - np.diagonal(squares, axis1=-2, axis2=-1).sum(axis=-1)
    )
    spread = on + off - (kappa - chance * disagreement) ** 2
    error = np.sqrt(divide(np.maximum(spread, 0), n * rest**2))
    return kappa, error


def shown_agreement(low: Int64s, high: Int64s, k: int) -> ShownAgreement | None:
    """Return kappa with its 95 % interval, from the bands of the pairs; None if it is hidden.

    It is hidden if fewer than k pairs have a reviewer who said ready, or one who said not ready (0
    is treated like 1 to k - 1). Kappa uses the middles of the bands, each bound the ends that move
    it outward. With x = apart / 2, kappa = 1 - x / (both + x) - x / (neither + x) rises with the
    pairs that agree and falls with the others. So the bounds and ``at_least`` hold for any counts
    in these bands.

    Args:
        low: smallest numbers of pairs: both ready, both not ready, apart.
        high: largest numbers of pairs, likewise.
        k: smallest cell that may be shown; 1 shows exact numbers.
    """
    if min(low[0], low[1]) + low[2] < k:
        return None
    kappa, worst, best = (
        _interval(Pairs(*table))
        for table in ((low + high) / 2, (*low[:2], high[2]), (*high[:2], low[2]))
    )
    if np.isnan(worst[0]):
        return None
    scale = 100 if k > 1 else 1e12
    lower = max(math.floor(worst[1] * scale) / scale, -1.0)
    if high[2] < k and k > 1:
        return ShownAgreement(None, math.floor(worst[0] * scale) / scale, lower, 1.0)
    upper = min(math.ceil(best[2] * scale) / scale, 1.0)
    wrong = math.ceil(_wrong_share(low, high) * scale) / scale
    return ShownAgreement(round(kappa[0] * scale) / scale, None, lower, upper, wrong)


def _wrong_share(low: Int64s, high: Int64s) -> float:
    """Return the largest share of wrong labels, if both reviewers err alike and by themselves.

    Two labels differ where one of them is wrong: p = 2 e (1 - e), so e = (1 - sqrt(1 - 2 p)) / 2.
    """
    apart = high[2] / (low[0] + low[1] + high[2])
    return (1 - math.sqrt(max(1 - 2 * apart, 0))) / 2


def rates_if_wrong(
    rates: Mapping[Metric, ShownRate], wrong: float | None
) -> dict[Metric, ShownRate]:
    """Return the rates; TPR and FPR with what a share of wrong labels may do to their bounds."""
    points = {metric: rate.value for metric, rate in rates.items() if rate.value is not None}
    changed = dict(rates)
    if not wrong or not {Metric.TPR, Metric.FPR, Metric.READY} <= points.keys():
        return changed
    shares = {Metric.TPR: points[Metric.READY], Metric.FPR: 1 - points[Metric.READY]}
    for metric, opposite in ((Metric.TPR, Metric.FPR), (Metric.FPR, Metric.TPR)):
        lower, upper = rates[metric].lower or 0.0, rates[metric].upper or 1.0
        error_rates = points[opposite], shares[metric], wrong
        moved = [rate_if_wrong(bound, *error_rates) for bound in (lower, upper)]
        ends = rounded_down(np.minimum(moved[0], lower)), rounded_up(np.maximum(moved[1], upper))
        changed[metric] = replace(rates[metric], if_wrong=(float(ends[0]), float(ends[1])))
    return changed


def router_agreement(row: SliceRow) -> float | None:
    """Return Cohen's kappa of the router with its reviewers, from a row's shown rates alone.

    Served and ready are the classes; what was blocked is in neither. None if a rate has no point.

    Example:
        >>> from monitor.core.publish.snapshot import ShownRate
        >>> points = {Metric.READY: 0.5, Metric.TPR: 0.9, Metric.FPR: 0.1}
        >>> rates = {metric: ShownRate(point, 0, 1, 99) for metric, point in points.items()}
        >>> router_agreement(SliceRow("", {}, rates))
        0.8
    """
    rates = [row.rates.get(metric) for metric in (Metric.READY, Metric.TPR, Metric.FPR)]
    points = [rate.value for rate in rates if rate is not None and rate.value is not None]
    if len(points) < len(rates):
        return None
    ready, *served = points
    classes, shares = np.array([ready, 1 - ready]), np.array(served)
    kappa = float(cohens_kappa(np.array([classes * shares, classes * (1 - shares)]))[0])
    return None if math.isnan(kappa) else round(kappa, 2)


def _interval(pairs: Pairs) -> tuple[float, float, float]:
    kappa, error = (float(x) for x in cohens_kappa(pairs.table))
    return kappa, kappa - Z95 * error, kappa + Z95 * error

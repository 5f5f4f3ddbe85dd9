"""Precision as it may be shown: from the TPR, FPR and ready rate that are shown, and nothing else.

P(ready | auto_serve) = T r / (T r + F (1 - r)), with T the TPR, F the FPR and r = P(ready); the
weighted estimates satisfy it exactly. A precision that were rounded from its own counts would be
one more view of the four cells (ready or not, served or not) of which the others are three, and all
of them together can leave fewer than k numbers for a cell. Computed from what is shown, it tells
nothing that a reader could not compute: no cell is narrowed by it, whatever the counts are.

The price is resolution. The rate lies somewhere between the ends that the roundings leave, and its
support is what the supports of TPR and FPR prove at least::

    n >= T (1 - T) n_T (1 - P) / P        n >= F (1 - F) n_F P / (1 - P)

P the precision: served ready replies are worth at least T (1 - T) n_T counted ones, and those that
are not ready F (1 - F) n_F, whatever the audit rates (with V = S + N P (1 - P) for the variance of
the number of ready among N served replies, S from sampling, the first are worth
N^2 P^2 / (N P + S)). Where neither proves enough, k labels are known to be there.
"""

from __future__ import annotations

import numpy as np

from monitor.core.contract import Metric
from monitor.core.intervals import Floats, divide
from monitor.core.privacy.bands import Precision
from monitor.core.publish.suppression import ShownColumns

_WIDEST = 0.2
"""Distance of both ends up to which a number is shown: twice the coarsest step of other rates."""


def shown_precision(
    tpr: ShownColumns, fpr: ShownColumns, ready: ShownColumns, precision: Precision
) -> ShownColumns:
    """The precision of every row: a number where all three are and agree on it, else a bound.

    Hidden where one of the three is. Ends that are too far apart for a number are told by the one
    that says more: ``at_least`` the lower, or ``at_most`` the upper.
    """
    (low_t, high_t), (low_f, high_f), (low_r, high_r) = map(_range, (tpr, fpr, ready))
    low, high = _share(low_t, high_f, low_r, 0), _share(high_t, low_f, high_r, 1)
    shown = tpr.shown & fpr.shown & ready.shown
    proven = np.maximum(
        _spread(low_t, high_t) * tpr.trials * divide(1 - high, high, empty=0),
        _spread(low_f, high_f) * fpr.trials * divide(low, 1 - low, empty=0),
    )
    support = np.maximum(precision.support(proven), precision.k)
    value = precision.nearest((low + high) / 2)
    plain = (high - low <= _WIDEST) & (support >= precision.smallest)
    below = ~plain & (low >= 1 - high)
    return ShownColumns(
        Metric.PRECISION,
        shown,
        np.where(shown & plain, value, np.nan),
        np.where(below, precision.down(low), np.nan),
        np.where(~plain & ~below, precision.up(high), np.nan),
        support,
        support.astype(np.float64),
        # Wide enough for both ends, also where the number between them is rounded.
        2 * np.maximum(high - value, value - low),
    )


def _range(rate: ShownColumns) -> tuple[Floats, Floats]:
    """Smallest and largest rate that is shown as this number, or as this code."""
    low, high = rate.points
    half = np.where(np.isnan(rate.value), 0, rate.step / 2)
    return np.maximum(low - half, 0), np.minimum(high + half, 1)


def _share(tpr: Floats, fpr: Floats, ready: Floats, empty: float) -> Floats:
    served = tpr * ready
    return divide(served, served + fpr * (1 - ready), empty=empty)


def _spread(low: Floats, high: Floats) -> Floats:
    """The least x (1 - x) between both ends."""
    return np.minimum(low * (1 - low), high * (1 - high))

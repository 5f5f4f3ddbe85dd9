"""Support guards: rows of a group-by are shown all or not at all, so subtraction finds nothing.

Hiding small cells alone is useless next to a published total (98 % of them can be recovered); a
group-by is therefore shown only if every slice has 0 or at least k decisions. Whatever is hidden
looks the same, whatever the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counter, Int64s
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import by_route
from monitor.core.intervals import divide
from monitor.core.privacy.pooling import decisions_of

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Opened:
    """Rows of one group-by in one window that may be shown, arrays of shape (S,).

    Attributes:
        cells: selection and blocked rates, and that the slice has any decisions.
        labels: rates that rest on labels.
    """

    cells: Bools
    labels: Bools

    def unless(self, closed: bool) -> Opened:
        """Nothing at all if ``closed``."""
        return Opened(self.cells & (not closed), self.labels & (not closed))


@dataclass(frozen=True, slots=True)
class RouteLabels:
    """Reviewed decisions and their labels, shape (route, S): auto_serve, then human_review."""

    decisions: Int64s
    labels: Int64s

    def pooled(self, joined: Int64s) -> RouteLabels:
        """Added up by the number of each row."""
        sums = np.zeros((int(joined.max(initial=-1)) + 1, 2, len(self.decisions)), np.int64)
        np.add.at(sums, joined, np.stack([self.decisions.T, self.labels.T], axis=1))
        return RouteLabels(sums[:, 0].T, sums[:, 1].T)

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """Decisions that a label speaks for, at least; 1 where all are labelled.

        Rounded up to a power of the square root of 2, as audit rates are, so that a bound
        computed from it does not give the counts away.
        """
        plain = np.maximum(divide(self.decisions, self.labels, empty=1), 1)
        steps = np.ceil(2 * np.log2(plain) - 1e-9)  # 2.0 is a step, not 2.83
        return np.asarray(2.0 ** (steps / 2), np.float64)


def open_cells(decisions: Int64s, k: int) -> Bools:
    """Slices with at least k decisions; none at all if any slice has 1 to k - 1."""
    if np.any((decisions != 0) & (decisions < k)):
        return np.zeros(decisions.shape, bool)
    return decisions >= k


def open_labels(routes: RouteLabels, k: int) -> Bools:
    """Slices with at least k labels in every route that has decisions.

    None at all if any slice has 1 to k - 1 labels in a route: the labels of the total less
    those of the other slices are the labels of that slice, for each route by itself. A slice
    with no label in a route is hidden alone: subtraction leaves 0 or at least k there.
    """
    if np.any((routes.labels != 0) & (routes.labels < k)):
        return np.zeros(routes.labels.shape[1], bool)
    return each_labelled(routes, k)


def each_labelled(routes: RouteLabels, k: int) -> Bools:
    """Rows that have decisions, and at least k labels in every route that has any."""
    enough = (routes.labels >= k) | (routes.decisions == 0)
    return np.asarray(enough.all(axis=0) & routes.decisions.any(axis=0), bool)


def route_labels(counts: SliceCounts) -> RouteLabels:
    """Count labels by route, over what labelled rates are about."""
    totals = by_route(counts)
    return RouteLabels(totals[:, :, Counter.N], totals[:, :, Counter.LABELLED])


def opened(
    decisions: SliceCounts, labelled: SliceCounts | None, k: int, joined: Int64s | None = None
) -> Opened:
    """Rows of a group-by that may be shown, by its own counts.

    Args:
        decisions: counts up to the watermark.
        labelled: counts up to the label frontier; None in windows without labels.
        k: smallest cell that may be shown.
        joined: rows of one number have their labels pooled: none of them shows labelled rates.
            None where nothing is pooled.
    """
    cells = open_cells(decisions_of(decisions), k)
    if labelled is None:
        return Opened(cells, np.zeros(cells.shape, bool))
    routes = route_labels(labelled)
    if joined is None:
        return Opened(cells, cells & open_labels(routes, k))
    alone = np.bincount(joined)[joined] == 1
    return Opened(cells, cells & alone & open_labels(routes.pooled(joined), k)[joined])

"""Calibration of a slice: shares of its replies by score band, and their bounds.

For every band b, let x_b and y_b be the shares of ready and other replies among all unblocked ones.
The published numbers bound them by linear constraints, homogeneous in the total:

- P(ready | band) and P(ready) lie in their intervals;
- a band has at least as many replies as its effective number of labels (only if labels and
  decisions cover nearly the same time, so that the number of all replies is known);
- if the router's threshold is known and an edge of bands, the bands above it hold TPR of the ready
  and FPR of the other replies.

All intervals are widened so that they hold together (Bonferroni).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import CalibrationCell, Period, ShownRate
from monitor.core.rates.gaps import Bools, simultaneous_z
from monitor.reports.planners.published_rates import decisions_behind, interval_at, precision_of

_EDGE = re.compile(r"^(\d+\.\d+) (?:to|and) ")
_LABELLED = (Metric.READY, Metric.TPR, Metric.FPR)
_SAME = 1e-9
_MOST_UNCOVERED = 0.25
"""Largest time with labels but no decisions, relative to the time of the decisions. Up to this
quarter, that time is assumed to have as many replies as the rest."""


def lowest_scores(cells: Sequence[CalibrationCell]) -> tuple[float | None, ...]:
    """Return each band's lowest score: None for the band without a score, 0 for the lowest."""
    return tuple(_lowest(cell.band) for cell in cells)


def _lowest(band: str) -> float | None:
    if band == "no score":
        return None
    edge = _EDGE.match(band)
    return float(edge[1]) if edge else 0.0


@dataclass(frozen=True, slots=True)
class Bands:
    """Published score bands of a slice, with linear rules that their shares must keep.

    Attributes:
        begins: lowest score of each band; None without a score.
        labelled: whether P(ready) of each band is shown.
        shares: shares (x, y) of each band, shape (2, B); None unless labels are complete.
        rules: constraints: rows a with a (x, y) <= 0, shape (C, 2 B).
    """

    begins: tuple[float | None, ...]
    labelled: tuple[bool, ...]
    shares: Floats | None
    rules: Floats

    @classmethod
    def for_place(cls, place: Place, present: float | None) -> Bands | None:
        """Return the Bands of a row; None if its calibration or its ready rate is withheld.

        Args:
            place: published row of the slice.
            present: score from which on the router serves; None if unknown.
        """
        cells, ready = place.row.calibration, place.row.rates.get(Metric.READY)
        if not cells or ready is None:
            return None
        begins = lowest_scores(cells)
        labelled = tuple(cell.rate is not None for cell in cells)
        rules = np.array(list(_rules(place, ready, present)))
        return cls(begins, labelled, _exact_shares(place, ready), rules)

    def served(self, threshold: float) -> Bools:
        """Return a mask of bands served from ``threshold`` on; a band without a score never is."""
        return _above(self.begins, threshold)


def _above(begins: Sequence[float | None], threshold: float) -> Bools:
    return np.array([begin is not None and begin >= threshold - _SAME for begin in begins], bool)


def _exact_shares(place: Place, ready: ShownRate) -> Floats | None:
    """Return shares (ready, not ready) of the bands, shape (2, J); None unless all are exact.

    Supports are then counts, which add up, and labelled rows alone give the same rates.
    """
    cells, row = place.row.calibration, place.row
    if not precision_of(place.contract).exact or ready.value is None or not ready.support:
        return None
    pairs = [(row.rates.get(metric), row.as_labelled.get(metric)) for metric in _LABELLED]
    alike = all(
        rate is None
        or (
            (rate.value is not None and labelled_rate is not None)
            and abs(rate.value - labelled_rate) < _SAME
        )
        for rate, labelled_rate in pairs
    )
    counts = [0 if band_cell.rate is None else band_cell.rate.support for band_cell in cells]
    if not alike or sum(counts) != ready.support:
        return None
    values = [
        0.0 if band_cell.rate is None else (band_cell.rate.value or 0.0) for band_cell in cells
    ]
    shares = np.array(counts) / ready.support
    return np.array([shares * values, shares * (1 - np.array(values))])


def _rules(place: Place, ready: ShownRate, present: float | None) -> Iterator[Floats]:
    """Yield linear bounds on decisions and ready ones by band, as rows of a linear programme."""
    cells = place.row.calibration
    band_count = len(cells)
    served_rates = _present_rates(place, present)
    z = simultaneous_z(
        sum(band_cell.rate is not None for band_cell in cells) + 1 + len(served_rates)
    )
    unit, no_band = np.eye(band_count), np.zeros(band_count)
    all_bands = np.ones(band_count)
    yield from _ratio_rules(all_bands, no_band, *interval_at(ready, z))
    for band, cell in enumerate(cells):
        if cell.rate is not None:
            yield from _ratio_rules(unit[band], no_band, *interval_at(cell.rate, z))
            least = _least_share(place, cell.rate)
            yield np.concatenate([least - unit[band], least - unit[band]])
    for metric, rate, above in served_rates:
        low, high = interval_at(rate, z)
        sides = [low - above, above - high]
        zeros = np.zeros(band_count)
        for side in sides:
            yield np.concatenate([side, zeros] if metric is Metric.TPR else [zeros, side])


def _ratio_rules(ready: Floats, zeros: Floats, low: float, high: float) -> Iterator[Floats]:
    """Yield two rows of coefficients that keep x / (x + y) of marked bands in low to high."""
    yield np.concatenate([(low - 1) * ready, low * ready + zeros])
    yield np.concatenate([(1 - high) * ready, -high * ready + zeros])


def _present_rates(place: Place, threshold: float | None) -> list[tuple[Metric, ShownRate, Floats]]:
    """Return (metric, rate, mask of bands served now) for TPR and FPR; empty if not known."""
    begins = lowest_scores(place.row.calibration)
    edges = [begin for begin in begins if begin]
    if threshold is None or not any(abs(begin - threshold) < _SAME for begin in edges):
        return []
    above = _above(begins, threshold).astype(np.float64)
    rates = ((metric, place.row.rates.get(metric)) for metric in (Metric.TPR, Metric.FPR))
    return [(metric, rate, above) for metric, rate in rates if rate is not None]


def _least_share(place: Place, rate: ShownRate) -> float:
    """Return the least share of replies in the band of ``rate``; 0 if it is not known."""
    selection, blocked = (
        place.row.rates.get(metric) for metric in (Metric.SELECTION, Metric.BLOCKED)
    )
    uncovered = _uncovered_share(place.table.decisions, place.table.labelled)
    if selection is None or uncovered > _MOST_UNCOVERED:
        return 0.0
    passed = 1.0 if blocked is None or blocked.lower is None else 1 - blocked.lower
    least_replies, _ = decisions_behind(place.contract, rate.support)
    _, most_decisions = decisions_behind(place.contract, selection.support)
    return (
        min(1.0, least_replies / (most_decisions * passed * (1 + uncovered)))
        if most_decisions * passed > 0
        else 0.0
    )


def _uncovered_share(decisions: Period | None, labelled: Period | None) -> float:
    """Return the labelled time without published decisions, relative to that of the decisions."""
    if decisions is None or labelled is None:
        return inf
    common = min(decisions.end, labelled.end) - max(decisions.start, labelled.start)
    return (labelled.end - labelled.start - max(common, 0)) / (decisions.end - decisions.start)

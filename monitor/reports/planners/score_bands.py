"""Calibration of a slice: shares of its replies by score band, and their bounds.

Of every band b let x_b and y_b be the shares of ready and other replies, of all that are not
blocked. What is published bounds them by linear constraints, homogeneous in the total:

- P(ready | band) and P(ready) lie in their intervals;
- a band has at least as many replies as its effective number of labels (only where labels and
  decisions are of nearly one time, so that the number of all replies is known);
- if it is known from which score on the router serves, and that is an edge of bands, the bands
  above hold TPR of the ready and FPR of the other replies.

All intervals are widened so that they hold together (Bonferroni).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from monitor.core.contract import Metric
from monitor.core.intervals import Floats
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import CalibrationCell, Period, ShownRate
from monitor.core.rates.gaps import Bools, simultaneous_z
from monitor.reports.planners.published_rates import decisions_behind, interval_at, precision_of

_EDGE = re.compile(r"^(\d+\.\d+) (?:to|and) ")
_LABELLED = (Metric.READY, Metric.TPR, Metric.FPR)
_SAME = 1e-9
_MOST_BESIDE = 0.25
"""Labels may cover a little time that decisions do not. Up to a quarter, that time is taken to have
as many replies as the rest."""


def lowest_scores(cells: Sequence[CalibrationCell]) -> tuple[float | None, ...]:
    """The score at which each band begins; None of that without a score, 0 of the lowest one."""
    return tuple(_lowest(cell.band) for cell in cells)


def _lowest(band: str) -> float | None:
    if band == "no score":
        return None
    found = _EDGE.match(band)
    return float(found[1]) if found else 0.0


@dataclass(frozen=True, slots=True)
class Bands:
    """The bands of one slice as published.

    Attributes:
        begins: the score at which each begins; None without a score.
        labelled: whether P(ready) of each is shown.
        known: the shares (x, y) of each, shape (2, B), where labels are complete; None else.
        rules: constraints: rows a with a (x, y) <= 0, shape (C, 2 B).
    """

    begins: tuple[float | None, ...]
    labelled: tuple[bool, ...]
    known: Floats | None
    rules: Floats

    @classmethod
    def of(cls, place: Place, present: float | None) -> Bands | None:
        """The bands of a row; None where its calibration or its ready rate is withheld.

        Args:
            place: as published.
            present: the score from which on the router serves; None where that is not known.
        """
        cells, ready = place.row.calibration, place.row.rates.get(Metric.READY)
        if not cells or ready is None:
            return None
        begins = lowest_scores(cells)
        labelled = tuple(cell.rate is not None for cell in cells)
        rules = np.array(list(_rules(place, ready, present)))
        return cls(begins, labelled, _complete(place, ready), rules)

    def served(self, threshold: float) -> Bools:
        """The bands that are served from a threshold on; never what has no score."""
        return _above(self.begins, threshold)


def _above(begins: Sequence[float | None], threshold: float) -> Bools:
    return np.array([at is not None and at >= threshold - _SAME for at in begins], bool)


def _complete(place: Place, ready: ShownRate) -> Floats | None:
    """Shares of the bands where numbers are exact and every reply has a label; else None.

    Then supports are counts, which add up, and labelled rows alone give the same rates.
    """
    cells, row = place.row.calibration, place.row
    if not precision_of(place.contract).exact or ready.value is None or not ready.support:
        return None
    pairs = [(row.rates.get(metric), row.as_labelled.get(metric)) for metric in _LABELLED]
    alike = all(
        rate is None
        or ((rate.value is not None and same is not None) and abs(rate.value - same) < _SAME)
        for rate, same in pairs
    )
    counts = [0 if one.rate is None else one.rate.support for one in cells]
    if not alike or sum(counts) != ready.support:
        return None
    values = [0.0 if one.rate is None else (one.rate.value or 0.0) for one in cells]
    shares = np.array(counts) / ready.support
    return np.array([shares * values, shares * (1 - np.array(values))])


def _rules(place: Place, ready: ShownRate, present: float | None) -> Iterator[Floats]:
    cells = place.row.calibration
    number = len(cells)
    known = _present(place, present)
    z = simultaneous_z(sum(one.rate is not None for one in cells) + 1 + len(known))
    one, zero = np.eye(number), np.zeros(number)
    everything = np.ones(number)
    yield from _within(everything, zero, *interval_at(ready, z))
    for at, cell in enumerate(cells):
        if cell.rate is not None:
            yield from _within(one[at], zero, *interval_at(cell.rate, z))
            least = _least_share(place, cell.rate)
            yield np.concatenate([least - one[at], least - one[at]])
    for metric, rate, above in known:
        low, high = interval_at(rate, z)
        part = [low - above, above - high]
        blank = np.zeros(number)
        for side in part:
            yield np.concatenate([side, blank] if metric is Metric.TPR else [blank, side])


def _within(ready: Floats, zero: Floats, low: float, high: float) -> Iterator[Floats]:
    """Low (x + y) <= x <= high (x + y), summed over the bands that ``ready`` marks."""
    yield np.concatenate([(low - 1) * ready, low * ready + zero])
    yield np.concatenate([(1 - high) * ready, -high * ready + zero])


def _present(place: Place, threshold: float | None) -> list[tuple[Metric, ShownRate, Floats]]:
    """TPR and FPR, and the bands that are served now; nothing where that is not known."""
    begins = lowest_scores(place.row.calibration)
    edges = [at for at in begins if at]
    if threshold is None or not any(abs(at - threshold) < _SAME for at in edges):
        return []
    above = _above(begins, threshold).astype(np.float64)
    rates = ((m, place.row.rates.get(m)) for m in (Metric.TPR, Metric.FPR))
    return [(metric, rate, above) for metric, rate in rates if rate is not None]


def _least_share(place: Place, rate: ShownRate) -> float:
    """The share of replies that a band has at least; 0 where their number is not known."""
    selection, blocked = (place.row.rates.get(m) for m in (Metric.SELECTION, Metric.BLOCKED))
    beside = _beside(place.table.decisions, place.table.labelled)
    if selection is None or beside > _MOST_BESIDE:
        return 0.0
    passed = 1.0 if blocked is None or blocked.lower is None else 1 - blocked.lower
    least, _ = decisions_behind(place.contract, rate.support)
    _, most = decisions_behind(place.contract, selection.support)
    return min(1.0, least / (most * passed * (1 + beside))) if most * passed > 0 else 0.0


def _beside(decisions: Period | None, labelled: Period | None) -> float:
    """Time that has labels and no published decisions, over that of the decisions."""
    if decisions is None or labelled is None:
        return inf
    common = min(decisions.end, labelled.end) - max(decisions.start, labelled.start)
    return (labelled.end - labelled.start - max(common, 0)) / (decisions.end - decisions.start)

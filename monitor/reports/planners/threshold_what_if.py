"""Threshold what-if: what would be served if the threshold were at an edge of the score bands.

Every reply that is not blocked is taken to be routed by its score: served from the threshold on,
and to review below it or without a score. At an edge, the rates follow from the shares of the bands
(:mod:`monitor.reports.planners.score_bands`): exactly where labels are complete and numbers exact,
else between bounds. All three rates fall as the threshold rises, so inside a band they lie between
those at its two edges; TPR and FPR are not identified there if it has no labels.

The bounds are the least and the largest value that any shares can have that the published numbers
allow: linear programs, after the total of the rate's denominator is set to 1.

Source: Charnes and Cooper (1962), Naval Research Logistics Quarterly 9 (ratios as linear programs);
Manski (1989), Journal of Human Resources 24 (what is not known is bounded, not guessed).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monitor.core.contract import Metric
from monitor.core.intervals import Floats
from monitor.core.privacy.bands import Precision
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.reasons import Place
from monitor.core.rates.gaps import Bools
from monitor.reports.planners.published_rates import Named, precision_of
from monitor.reports.planners.score_bands import Bands
from monitor.reports.weekly_report import WeeklyReport

_METRICS = (Metric.SELECTION, Metric.TPR, Metric.FPR)
_Ends = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Ends of what a rate can be; the same where it is known exactly."""

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class WhatIfLine:
    """The rates of one slice at a threshold, or at all thresholds inside a band.

    Attributes:
        of: which slice.
        threshold: the threshold, or the lower edge of the band.
        below: the upper edge of the band; None at a threshold that is an edge.
        selection: P(auto_serve) of what is not blocked; None is not identified.
        tpr: P(auto_serve | ready).
        fpr: P(auto_serve | not ready).
    """

    of: Named
    threshold: float
    below: float | None
    selection: Bounds | None
    tpr: Bounds | None
    fpr: Bounds | None


def what_if(report: WeeklyReport) -> tuple[WhatIfLine, ...]:
    """All thresholds of all slices whose calibration is shown, contract by contract."""
    lines: list[WhatIfLine] = []
    for contract, window in report.windows():
        found = [total_place(contract, window), *places(contract, window)]
        made = ((one, Bands.of(one, report.facts.present_threshold)) for one in found)
        lines += at_thresholds([(one, bands) for one, bands in made if bands is not None])
    return tuple(lines)


def at_thresholds(found: Sequence[tuple[Place, Bands]]) -> Iterator[WhatIfLine]:
    """The lines of some slices of one contract."""
    if not found:
        return
    edges = sorted({at for _, bands in found for at in bands.begins if at})
    rates = {(edge, m): _rates(found, edge, m) for edge in edges for m in _METRICS}
    for at, (place, bands) in enumerate(found):
        precision = precision_of(place.contract)
        at_edges = [
            _line(place, edge, None, *(_shown(rates[edge, m][at], precision) for m in _METRICS))
            for edge in edges
        ]
        yield from _with_bands(place, bands, at_edges)


def _line(place: Place, edge: float, below: float | None, *rates: Bounds | None) -> WhatIfLine:
    return WhatIfLine(Named.of(place), edge, below, *rates)


def _shown(ends: _Ends, precision: Precision) -> Bounds | None:
    if ends is None:
        return None
    low, high = (min(1.0, max(0.0, end)) for end in ends)
    return Bounds(float(precision.down(low)), float(precision.up(high)))


def _with_bands(place: Place, bands: Bands, edges: Sequence[WhatIfLine]) -> Iterator[WhatIfLine]:
    """The lines at edges, and between them those inside the bands."""
    everything, nothing = Bounds(1.0, 1.0), Bounds(0.0, 0.0)
    first = _line(place, 0.0, None, everything, everything, everything)
    last = _line(place, 1.0, None, nothing, nothing, nothing)
    for low, high in pairwise([first, *edges, last]):
        if low is not first:
            yield low
        labelled = any(
            shown
            for begins, shown in zip(bands.begins, bands.labelled, strict=True)
            if begins is not None and low.threshold <= begins < high.threshold
        )
        selection, *outcomes = (
            _between(getattr(high, name), getattr(low, name))
            for name in ("selection", "tpr", "fpr")
        )
        inside = outcomes if labelled else [None, None]
        yield _line(place, low.threshold, high.threshold, selection, *inside)


def _between(least: Bounds | None, most: Bounds | None) -> Bounds | None:
    return None if least is None or most is None else Bounds(least.lower, most.upper)


def _rates(found: Sequence[tuple[Place, Bands]], edge: float, metric: Metric) -> list[_Ends]:
    """One rate at one edge, of all slices."""
    open_ones = [at for at, (_, bands) in enumerate(found) if bands.known is None]
    solved = dict(
        zip(open_ones, _solved([found[at][1] for at in open_ones], edge, metric), strict=True)
    )
    return [
        solved[at] if bands.known is None else _exact(bands.known, bands.served(edge), metric)
        for at, (_, bands) in enumerate(found)
    ]


def _exact(shares: Floats, served: Bools, metric: Metric) -> _Ends:
    part = {Metric.SELECTION: shares.sum(axis=0), Metric.TPR: shares[0], Metric.FPR: shares[1]}
    whole = float(part[metric].sum())
    rate = float(part[metric][served].sum()) / whole if whole > 0 else None
    return None if rate is None else (rate, rate)


def _solved(bands: Sequence[Bands], edge: float, metric: Metric) -> list[_Ends]:
    """Least and largest rate of each slice; None where the published numbers allow no shares.

    The programs of all slices are solved as one: they share nothing, so the best sum is that of
    the best of each. Where one of them has no solution, they are solved half by half.
    """
    if not bands:
        return []
    weights = [_weights(len(one.begins), metric) for one in bands]
    gains = [w * np.tile(one.served(edge), 2) for one, w in zip(bands, weights, strict=True)]
    ends = [_optimum(bands, weights, [sign * gain for gain in gains]) for sign in (1, -1)]
    if ends[0] is None or ends[1] is None:
        if len(bands) == 1:
            return [None]
        half = len(bands) // 2
        return _solved(bands[:half], edge, metric) + _solved(bands[half:], edge, metric)
    return [(float(low), float(-high)) for low, high in zip(*ends, strict=True)]


def _weights(bands: int, metric: Metric) -> Floats:
    """Weight of each (x, y) in the denominator of a rate: 1 or 0."""
    ready, other = metric is not Metric.FPR, metric is not Metric.TPR
    return np.repeat([float(ready), float(other)], bands)


def _optimum(
    bands: Sequence[Bands], weights: Sequence[Floats], costs: Sequence[Floats]
) -> Floats | None:
    """The least cost of each slice whose denominator is 1; None where there is none."""
    from scipy.optimize import linprog  # noqa: PLC0415 - slow to load
    from scipy.sparse import block_diag  # noqa: PLC0415 - slow to load

    found = linprog(
        np.concatenate(costs),
        A_ub=block_diag([one.rules for one in bands], format="csr"),
        b_ub=np.zeros(sum(len(one.rules) for one in bands)),
        A_eq=block_diag([w[None] for w in weights], format="csr"),
        b_eq=np.ones(len(bands)),
        method="highs",
    )
    if not found.success:
        return None
    starts = np.cumsum([0, *(len(cost) for cost in costs)])[:-1]
    return np.asarray(np.add.reduceat(np.concatenate(costs) * found.x, starts))

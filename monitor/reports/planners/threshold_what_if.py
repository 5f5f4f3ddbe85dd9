"""Threshold what-if: rates if the threshold were at an edge of the score bands.

The planner assumes that the score alone routes every unblocked reply: served from the threshold on,
to review below it or without a score. At an edge, the rates follow from the shares of the bands
(:mod:`monitor.reports.planners.score_bands`): exactly if labels are complete and numbers exact,
else between bounds. All three rates fall as the threshold rises, so inside a band they lie between
the rates at its two edges. Without labels in the band, TPR and FPR are not identified there.

The bounds are the extremes over all shares that the published numbers allow. Linear programs find
them, after the total of the rate's denominator is set to 1.

Source: Charnes and Cooper (1962), Naval Research Logistics Quarterly 9 (ratios as linear programs);
Manski (1989), Journal of Human Resources 24 (what is not known is bounded, not guessed).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.privacy.bands import Precision
from monitor.core.publish.lines import all_places
from monitor.core.publish.reasons import Place
from monitor.core.rates.gaps import Bools
from monitor.reports.planners.published_rates import Named, precision_of
from monitor.reports.planners.score_bands import Bands
from monitor.reports.weekly_report import WeeklyReport

_METRICS = (Metric.SELECTION, Metric.TPR, Metric.FPR)
_Ends = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and largest possible value of a rate; equal if it is known exactly."""

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class WhatIfLine:
    """Rates of one slice if the threshold were at an edge, or anywhere inside a band.

    Attributes:
        threshold: threshold, or the lower edge of the band.
        below: upper edge of the band; None at a threshold that is an edge.
        selection: P(auto_serve) among unblocked replies; None is not identified.
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
    """Return a WhatIfLine per edge, band and slice, for all slices that show calibration."""
    lines: list[WhatIfLine] = []
    for contract, window in report.windows():
        place_bands = (
            (place, Bands.for_place(place, report.facts.present_threshold))
            for place in all_places(contract, window)
        )
        lines += at_thresholds(
            [(place, bands) for place, bands in place_bands if bands is not None]
        )
    return tuple(lines)


def at_thresholds(place_bands: Sequence[tuple[Place, Bands]]) -> Iterator[WhatIfLine]:
    """Yield a WhatIfLine per edge and band of each slice of one contract."""
    if not place_bands:
        return
    edges = sorted({begin for _, bands in place_bands for begin in bands.begins if begin})
    rates = {
        (edge, metric): _ranges(place_bands, edge, metric) for edge in edges for metric in _METRICS
    }
    for index, (place, bands) in enumerate(place_bands):
        precision = precision_of(place.contract)
        at_edges = [
            _line(
                place,
                edge,
                None,
                *(_shown(rates[edge, metric][index], precision) for metric in _METRICS),
            )
            for edge in edges
        ]
        yield from _band_lines(place, bands, at_edges)


def _line(place: Place, edge: float, below: float | None, *rates: Bounds | None) -> WhatIfLine:
    return WhatIfLine(Named.for_place(place), edge, below, *rates)


def _shown(ends: _Ends, precision: Precision) -> Bounds | None:
    """Return both ends within 0 to 1, rounded outward; None without ends."""
    if ends is None:
        return None
    low, high = (min(1.0, max(0.0, end)) for end in ends)
    return Bounds(float(precision.down(low)), float(precision.up(high)))


def _band_lines(place: Place, bands: Bands, edges: Sequence[WhatIfLine]) -> Iterator[WhatIfLine]:
    """Yield the lines at edges, and between them a line for thresholds inside each band."""
    everything, nothing = Bounds(1.0, 1.0), Bounds(0.0, 0.0)
    first = _line(place, 0.0, None, everything, everything, everything)
    last = _line(place, 1.0, None, nothing, nothing, nothing)
    for lower_line, upper_line in pairwise([first, *edges, last]):
        if lower_line is not first:
            yield lower_line
        has_labels = any(
            has_labels
            for begins, has_labels in zip(bands.begins, bands.labelled, strict=True)
            if begins is not None and lower_line.threshold <= begins < upper_line.threshold
        )
        selection, *outcomes = (
            _between(getattr(upper_line, name), getattr(lower_line, name))
            for name in ("selection", "tpr", "fpr")
        )
        inside = outcomes if has_labels else [None, None]
        yield _line(place, lower_line.threshold, upper_line.threshold, selection, *inside)


def _between(least: Bounds | None, most: Bounds | None) -> Bounds | None:
    return None if least is None or most is None else Bounds(least.lower, most.upper)


def _ranges(place_bands: Sequence[tuple[Place, Bands]], edge: float, metric: Metric) -> list[_Ends]:
    """Return (least, largest) of a rate per slice when bands from ``edge`` on are served."""
    open_indices = [index for index, (_, bands) in enumerate(place_bands) if bands.shares is None]
    solved = dict(
        zip(
            open_indices,
            _solve_ranges([place_bands[index][1] for index in open_indices], edge, metric),
            strict=True,
        )
    )
    return [
        solved[index] if bands.shares is None else _exact(bands.shares, bands.served(edge), metric)
        for index, (_, bands) in enumerate(place_bands)
    ]


def _exact(shares: Floats, served: Bools, metric: Metric) -> _Ends:
    """Return the rate when these bands are served, as both ends; None without a denominator."""
    shares_by_metric = {
        Metric.SELECTION: shares.sum(axis=0),
        Metric.TPR: shares[0],
        Metric.FPR: shares[1],
    }
    denominator = float(shares_by_metric[metric].sum())
    rate = float(shares_by_metric[metric][served].sum()) / denominator if denominator > 0 else None
    return None if rate is None else (rate, rate)


def _solve_ranges(bands: Sequence[Bands], edge: float, metric: Metric) -> list[_Ends]:
    """Return (least, largest) rate per slice by linear programs; None for one without solution.

    One solver call takes the programs of all slices: they share nothing, so the best sum is the sum
    of the best. If any program has no solution, each half is solved alone.
    """
    if not bands:
        return []
    weights = [_denominator_weights(len(slice_bands.begins), metric) for slice_bands in bands]
    gains = [
        slice_weights * np.tile(slice_bands.served(edge), 2)
        for slice_bands, slice_weights in zip(bands, weights, strict=True)
    ]
    ends = [_least_costs(bands, weights, [sign * gain for gain in gains]) for sign in (1, -1)]
    if ends[0] is None or ends[1] is None:
        if len(bands) == 1:
            return [None]
        half = len(bands) // 2
        return _solve_ranges(bands[:half], edge, metric) + _solve_ranges(bands[half:], edge, metric)
    return [(float(low), float(-high)) for low, high in zip(*ends, strict=True)]


def _denominator_weights(bands: int, metric: Metric) -> Floats:
    """Return 1.0 for each band's share in a rate's denominator, else 0.0; shape (2 * bands,)."""
    ready, not_ready = metric is not Metric.FPR, metric is not Metric.TPR
    return np.repeat([float(ready), float(not_ready)], bands)


def _least_costs(
    bands: Sequence[Bands], weights: Sequence[Floats], costs: Sequence[Floats]
) -> Floats | None:
    """Return each slice's least cost with its denominator set to 1; None if one is infeasible."""
    from scipy.optimize import linprog  # noqa: PLC0415 - slow to load
    from scipy.sparse import block_diag  # noqa: PLC0415 - slow to load

    solution = linprog(
        np.concatenate(costs),
        A_ub=block_diag([slice_bands.rules for slice_bands in bands], format="csr"),
        b_ub=np.zeros(sum(len(slice_bands.rules) for slice_bands in bands)),
        A_eq=block_diag([slice_weights[None] for slice_weights in weights], format="csr"),
        b_eq=np.ones(len(bands)),
        method="highs",
    )
    if not solution.success:
        return None
    starts = np.cumsum([0, *(len(cost) for cost in costs)])[:-1]
    return np.asarray(np.add.reduceat(np.concatenate(costs) * solution.x, starts))

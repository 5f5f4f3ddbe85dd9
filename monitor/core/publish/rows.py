"""All rows of one group-by in one window, as they may be published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.contract import COMPLEMENT, Metric
from monitor.core.counts.cells import Int64s
from monitor.core.counts.completeness import by_stratum
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import Z95, Floats, divide
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import Opened, route_labels
from monitor.core.publish.agreement import pairs_of, shown_agreement
from monitor.core.publish.metric_rows import (
    MetricRows,
    Policy,
    Rate,
    Rolled,
    metric_rows,
    rates_of,
    references_of,
)
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ShownAgreement,
    ShownRate,
    SliceRow,
    Spread,
)
from monitor.core.publish.states import hidden
from monitor.core.publish.suppression import known, show, shown_rates
from monitor.core.rates.estimates import estimate, in_band
from monitor.core.rates.gaps import comparisons, simultaneous_z, spread

MIN_CALIBRATION = 10
"""Labels a calibration cell needs whatever k is: fewer say nothing about a score band."""


def build_rows(
    policy: Policy,
    rolled: Rolled,
    opened: Opened,
    reference: str | None = None,
    *,
    decides: bool = False,
    compared: int | None = None,
) -> tuple[tuple[SliceRow, ...], tuple[Spread, ...]]:
    """The rows of a group-by, and how far apart its shown slices are.

    Args:
        policy: what decides.
        rolled: counts; one row for every slice to be listed.
        opened: what the guards let through.
        reference: slice text or ``complement``; None for the total, which has no gaps.
        decides: whether it is the contract's own window.
        compared: comparisons whose bounds hold together; None where it is those of the table.
    """
    slices, metrics = rolled.decisions.slices, rolled.metrics
    if not opened.cells.any():
        return tuple(SliceRow(text, hidden(metrics)) for text in slices), ()
    own = comparisons(int(opened.cells.sum()), reference or COMPLEMENT)
    z = simultaneous_z(own if compared is None else compared)
    rates = rates_of(policy, rolled, opened, z)
    others = references_of(policy, rolled, reference, rates, z)
    tables = {
        m: metric_rows(policy, rolled, rates[m], others.get(m), reference=reference, z=z)
        for m in metrics
    }
    beside = _beside(policy, rolled, opened, decides=decides)
    rows = tuple(_row(text, i, tables, beside[i]) for i, text in enumerate(slices))
    return rows, _spreads(policy, slices, rates)


@dataclass(frozen=True, slots=True)
class _Beside:
    """Label statistics of a row, shown only with its labelled rates."""

    calibration: tuple[CalibrationCell, ...] = ()
    completeness: float | None = None
    agreement: ShownAgreement | None = None


def _beside(policy: Policy, rolled: Rolled, opened: Opened, *, decides: bool) -> list[_Beside]:
    """Calibration, completeness and agreement of every row, of labels that may be shown."""
    size = len(rolled.decisions.slices)
    if rolled.labelled is None or not opened.labels.any():
        return [_Beside()] * size
    bands = [_calibration(policy, rolled.labelled, opened, b) for b in range(policy.coding.bands)]
    cells = [
        tuple(map(CalibrationCell, policy.coding.band_names, row)) if show_it else ()
        for row, show_it in zip(zip(*bands, strict=True), opened.labels.tolist(), strict=True)
    ]
    complete = np.where(opened.labels, _completeness(policy.precision, rolled.labelled), np.nan)
    agreement = [
        shown_agreement(pairs, policy.precision) if decides and show_it else None
        for pairs, show_it in zip(pairs_of(rolled.labelled), opened.labels.tolist(), strict=True)
    ]
    return list(map(_Beside, cells, known(complete), agreement))


def _calibration(
    policy: Policy, labelled: SliceCounts, opened: Opened, band: int
) -> list[ShownRate | None]:
    """P(ready | score band) of every row; a band is hidden in all if one has 1 to k - 1 labels."""
    counts = in_band(labelled, band)
    routes, k = route_labels(counts), policy.precision.k
    labels: Int64s = routes.labels.sum(axis=0)
    may = opened.labels & (labels >= max(MIN_CALIBRATION, k))
    if not may.any() or np.any((labels != 0) & (labels < k)):
        return [None] * len(labelled.slices)
    exact = estimate(counts, policy.coding, Metric.READY, Z95)
    return shown_rates(show(exact, may, policy.precision, routes), policy.precision)


def _completeness(precision: Precision, labelled: SliceCounts) -> Floats:
    """Received / requested, the minimum over route x audit rate; NaN if nothing was requested.

    Both are floored to bands first (below k: received counts as 0, requested is left out).
    """
    received, requested = (precision.support(x) for x in by_stratum(labelled))
    share = divide(received, requested, empty=np.inf).min(axis=1, initial=np.inf)
    return np.where(np.isinf(share), np.nan, np.minimum(precision.nearest(share), 1))


def _row(
    text: str,
    index: int,
    tables: dict[Metric, MetricRows],
    beside: _Beside,
) -> SliceRow:
    rates = {m: rate for m, t in tables.items() if (rate := t.rates[index]) is not None}
    if not any(metric.labelled for metric in rates):
        beside = _Beside()  # the row looks like any hidden one
    return SliceRow(
        slice=text,
        states={metric: table.states[index] for metric, table in tables.items()},
        rates=rates,
        gaps={m: shown for m, t in tables.items() if (shown := t.gaps[index]) is not None},
        as_labelled={m: x for m, t in tables.items() if (x := t.as_labelled[index]) is not None},
        calibration=beside.calibration,
        completeness=beside.completeness,
        agreement=beside.agreement,
    )


def _spreads(
    policy: Policy, slices: tuple[str, ...], rates: dict[Metric, Rate]
) -> tuple[Spread, ...]:
    """Worst to best over the values that are shown; coded and hidden slices have none."""
    found = ((metric, spread(metric, rate.shown.value)) for metric, rate in rates.items())
    return tuple(
        Spread(metric, slices[ends[0]], slices[ends[1]], float(policy.precision.nearest(ends[2])))
        for metric, ends in found
        if ends is not None
    )

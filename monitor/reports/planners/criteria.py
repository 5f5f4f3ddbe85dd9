"""Criteria that cannot hold together where slices have different shares of ready replies.

With p = P(ready), TPR, FPR and the precision v = P(ready | auto_serve) of a slice,

    FPR = p / (1 - p) * (1 - v) / v * TPR

always. Slices with different p, equal TPR and equal precision therefore differ in FPR. All three
can be equal only for a router that never errs.

Source: Chouldechova (2017), Big Data 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.metric import Metric
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.snapshot import SliceRow
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport

_DIGITS = 3


@dataclass(frozen=True, slots=True)
class CriteriaLine:
    """FPR of a slice, and the FPR it would have with TPR and precision of all decisions.

    Attributes:
        ready: P(ready) as shown.
        precision: P(ready | auto_serve), from the shown TPR, FPR and ready rate.
        fpr: P(auto_serve | not ready) as shown.
        fpr_of_all: FPR of all decisions, as shown.
        fpr_forced: FPR that equal TPR and precision would force; above 1 it is impossible.
    """

    of: Named
    ready: float
    precision: float
    fpr: float
    fpr_of_all: float
    fpr_forced: float


def criteria(report: WeeklyReport) -> tuple[CriteriaLine, ...]:
    """Return a CriteriaLine per slice whose TPR, FPR and ready rate are shown as numbers."""
    return tuple(_lines(report))


def precision(tpr: float, fpr: float, ready: float) -> float | None:
    """Return P(ready | auto_serve) from TPR, FPR and P(ready); None if nothing is served.

    Example:
        >>> precision(0.8, 0.2, 0.5)
        0.8
    """
    served = tpr * ready + fpr * (1 - ready)
    return tpr * ready / served if served > 0 else None


def forced_fpr(tpr: float, precise: float, ready: float) -> float | None:
    """Return the FPR that follows from TPR, precision and P(ready); None if undefined."""
    if ready >= 1 or precise <= 0:
        return None
    return ready / (1 - ready) * (1 - precise) / precise * tpr


def _numbers(row: SliceRow) -> tuple[float, float, float] | None:
    """Return TPR, FPR and ready rate of a row; None unless all are shown."""
    tpr, fpr, ready = (
        row.rates[metric].value if metric in row.rates else None
        for metric in (Metric.TPR, Metric.FPR, Metric.READY)
    )
    return None if tpr is None or fpr is None or ready is None else (tpr, fpr, ready)


def _lines(report: WeeklyReport) -> Iterator[CriteriaLine]:
    """Yield each slice's rates, and the FPR that equal TPR and equal precision would force."""
    for contract, window in report.windows():
        total_numbers = _numbers(total_place(contract, window).row)
        total_precision = None if total_numbers is None else precision(*total_numbers)
        if total_numbers is None or total_precision is None:
            continue
        for place in places(contract, window):
            slice_numbers = _numbers(place.row)
            slice_precision = None if slice_numbers is None else precision(*slice_numbers)
            fpr_forced = (
                None
                if slice_numbers is None
                else forced_fpr(total_numbers[0], total_precision, slice_numbers[2])
            )
            if slice_numbers is None or slice_precision is None or fpr_forced is None:
                continue
            numbers = (
                slice_numbers[2],
                slice_precision,
                slice_numbers[1],
                total_numbers[1],
                fpr_forced,
            )
            yield CriteriaLine(
                Named.for_place(place), *(round(number, _DIGITS) for number in numbers)
            )

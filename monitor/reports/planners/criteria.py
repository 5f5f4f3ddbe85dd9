"""Criteria that cannot hold together where slices have different shares of ready replies.

With p = P(ready), TPR, FPR and the precision v = P(ready | auto_serve) of a slice,

    FPR = p / (1 - p) * (1 - v) / v * TPR

always. So of two slices with different p that have the same TPR and the same precision, one has
another FPR: not all three can be alike, whatever the router does (but for one that never errs).

Source: Chouldechova (2017), Big Data 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.contract import Metric
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.snapshot import SliceRow
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport

_DIGITS = 3


@dataclass(frozen=True, slots=True)
class CriteriaLine:
    """The FPR that a slice would have with the TPR and the precision of all decisions.

    Attributes:
        of: which slice.
        ready: P(ready) as shown.
        precision: P(ready | auto_serve), from the shown TPR, FPR and ready rate.
        fpr: as shown.
        fpr_of_all: of all decisions, as shown.
        fpr_forced: that equal TPR and precision would force; above 1 there is none.
    """

    of: Named
    ready: float
    precision: float
    fpr: float
    fpr_of_all: float
    fpr_forced: float


def criteria(report: WeeklyReport) -> tuple[CriteriaLine, ...]:
    """Every slice whose TPR, FPR and ready rate are shown as numbers."""
    return tuple(_lines(report))


def precision(tpr: float, fpr: float, ready: float) -> float | None:
    """P(ready | auto_serve); None where nothing is served.

    Example:
        >>> precision(0.8, 0.2, 0.5)
        0.8
    """
    served = tpr * ready + fpr * (1 - ready)
    return tpr * ready / served if served > 0 else None


def forced_fpr(tpr: float, precise: float, ready: float) -> float | None:
    """The FPR that follows from TPR, precision and P(ready); None where it is not defined."""
    if ready >= 1 or precise <= 0:
        return None
    return ready / (1 - ready) * (1 - precise) / precise * tpr


def _numbers(row: SliceRow) -> tuple[float, float, float] | None:
    tpr, fpr, ready = (
        row.rates[m].value if m in row.rates else None
        for m in (Metric.TPR, Metric.FPR, Metric.READY)
    )
    return None if tpr is None or fpr is None or ready is None else (tpr, fpr, ready)


def _lines(report: WeeklyReport) -> Iterator[CriteriaLine]:
    for contract, window in report.windows():
        whole = _numbers(total_place(contract, window).row)
        of_all = None if whole is None else precision(*whole)
        if whole is None or of_all is None:
            continue
        for place in places(contract, window):
            mine = _numbers(place.row)
            precise = None if mine is None else precision(*mine)
            forced = None if mine is None else forced_fpr(whole[0], of_all, mine[2])
            if mine is None or precise is None or forced is None:
                continue
            numbers = (mine[2], precise, mine[1], whole[1], forced)
            yield CriteriaLine(Named.of(place), *(round(x, _DIGITS) for x in numbers))

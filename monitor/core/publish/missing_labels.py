"""Labels that are missing, at their worst: how far off a slice's TPR and FPR may be.

Rates assume that the labels which did not come would say what the others of their stratum say. If
reviewers skip the hard cases, that is wrong, and no interval shows it. But if at most a share
m = 1 - c of a route's labels is missing (c the completeness), in whichever score band, then its
ready decisions are at most m of the route off. With A, H the estimated ready decisions of
``auto_serve`` and ``human_review``, and N_A, N_H all decisions there:

    (A - m N_A) / (A - m N_A + H + m N_H)  <=  TPR  <=  (A + m N_A) / (A + m N_A + H - m N_H)

where each part is cut to the possible, 0 to N; and the FPR likewise with those that are not ready.
A, H and the rest follow from TPR, FPR and the ready rate, so all of it is computed from numbers
that are shown, and a reader could do the same. Taken from the ends of the interval, the range
contains it, and equals it where nothing is missing.

Source: Manski (1989), Journal of Human Resources 24 (worst-case bounds under nonresponse).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from statistics import median
from typing import NamedTuple

from monitor.core.contract import Metric, State
from monitor.core.publish.snapshot import ShownRate, SliceRow

_DECIMALS = 100
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class WorstCase:
    """Ends of a rate's range whatever the missing labels say, in [0, 1], rounded outward.

    Attributes:
        metric: TPR or FPR.
        lower: at most the shown lower bound.
        upper: at least the shown upper bound.
    """

    metric: Metric
    lower: float
    upper: float


def lacking(rows: Sequence[SliceRow]) -> list[SliceRow]:
    """Rows of a group-by that are maturing and less complete than most of the others."""
    known = [row for row in rows if row.completeness is not None]
    return [
        row
        for row in known
        if State.MATURING in {row.states.get(Metric.TPR), row.states.get(Metric.FPR)}
        and _is_below(row, [other for other in known if other is not row])
    ]


def worst_cases(row: SliceRow) -> tuple[WorstCase, ...]:
    """Worst cases of a slice's TPR and FPR; none unless both and its ready rate are shown in full.

    Completeness is shown rounded; the range is right for the completeness that is shown.
    """
    tpr, fpr, ready = (_whole(row.rates.get(m)) for m in (Metric.TPR, Metric.FPR, Metric.READY))
    if tpr is None or fpr is None or ready is None or row.completeness is None:
        return ()
    return (
        _worst_case(Metric.TPR, tpr, fpr.value, ready.value, row.completeness),
        _worst_case(Metric.FPR, fpr, tpr.value, 1 - ready.value, row.completeness),
    )


class _Whole(NamedTuple):
    """A rate that is shown with its interval, not as a code."""

    value: float
    lower: float
    upper: float


def _whole(rate: ShownRate | None) -> _Whole | None:
    if rate is None or rate.value is None or rate.lower is None or rate.upper is None:
        return None
    return _Whole(rate.value, rate.lower, rate.upper)


def _is_below(row: SliceRow, others: Sequence[SliceRow]) -> bool:
    shares = [other.completeness for other in others if other.completeness is not None]
    return bool(shares) and row.completeness is not None and row.completeness < median(shares)


def _worst_case(
    metric: Metric, rate: _Whole, other: float, share: float, complete: float
) -> WorstCase:
    """Worst case of P(auto_serve | hit), hits being so large a share of the decisions."""
    low = possible_range(rate.lower, other, share, complete)[0]
    high = possible_range(rate.upper, other, share, complete)[1]
    return WorstCase(
        metric,
        min(rate.lower, floor(low * _DECIMALS + _SLACK) / _DECIMALS),
        max(rate.upper, ceil(high * _DECIMALS - _SLACK) / _DECIMALS),
    )


def possible_range(rate: float, other: float, share: float, complete: float) -> tuple[float, float]:
    """Smallest and largest share of the hits that was served, whatever the other labels say.

    Args:
        rate: P(auto_serve | hit) by the labels that are there and right.
        other: P(auto_serve | no hit) by them.
        share: of the hits among all decisions.
        complete: share of the labels of each route that are there, and right.
    """
    served, held = rate * share, (1 - rate) * share
    route = served + other * (1 - share)
    off, off_held = (1 - complete) * route, (1 - complete) * (1 - route)
    least, most = max(served - off, 0.0), min(served + off, route)
    least_held, most_held = max(held - off_held, 0.0), min(held + off_held, 1 - route)
    return (
        _divide(least, least + most_held, empty=0.0),
        _divide(most, most + least_held, empty=1.0),
    )


def _divide(part: float, whole: float, empty: float) -> float:
    return part / whole if whole > 0 else empty

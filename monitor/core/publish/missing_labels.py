"""Worst cases of missing labels: how far off a slice's TPR and FPR may be.

Rates assume that missing labels are like the others of their stratum. If reviewers skip the hard
cases, that is wrong, and no interval shows it. But if at most a share m = 1 - c of a route's labels
is missing (c the completeness), in any score band, then its ready decisions are at most m of the
route off. With A, H the estimated ready decisions of ``auto_serve`` and ``human_review``, and N_A,
N_H all decisions there:

    (A - m N_A) / (A - m N_A + H + m N_H)  <=  TPR  <=  (A + m N_A) / (A + m N_A + H - m N_H)

where each part is cut to the possible range, 0 to N; the FPR likewise with decisions that are not
ready. All of these numbers follow from the shown TPR, FPR and ready rate, so a reader could compute
the same. The range starts from the ends of the interval, so it contains the interval and equals it
if nothing is missing.

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
    """Range of a rate for any values of the missing labels, in [0, 1], rounded outward.

    Attributes:
        metric: TPR or FPR.
        lower: at most the shown lower bound.
        upper: at least the shown upper bound.
    """

    metric: Metric
    lower: float
    upper: float


def lacking(rows: Sequence[SliceRow]) -> list[SliceRow]:
    """Return rows of a group-by that are maturing and less complete than most other rows."""
    with_completeness = [row for row in rows if row.completeness is not None]
    return [
        row
        for row in with_completeness
        if State.MATURING in {row.states.get(Metric.TPR), row.states.get(Metric.FPR)}
        and _is_below_median(
            row, [other_row for other_row in with_completeness if other_row is not row]
        )
    ]


def worst_cases(row: SliceRow) -> tuple[WorstCase, ...]:
    """Return the worst cases of TPR and FPR if both and the ready rate are shown in full.

    The range is computed for the shown, rounded completeness.
    """
    tpr, fpr, ready = (_full_rate(row.rates.get(m)) for m in (Metric.TPR, Metric.FPR, Metric.READY))
    if tpr is None or fpr is None or ready is None or row.completeness is None:
        return ()
    return (
        _worst_case(Metric.TPR, tpr, fpr.value, ready.value, row.completeness),
        _worst_case(Metric.FPR, fpr, tpr.value, 1 - ready.value, row.completeness),
    )


class _FullRate(NamedTuple):
    """Rate that is shown with its interval, not as a code."""

    value: float
    lower: float
    upper: float


def _full_rate(rate: ShownRate | None) -> _FullRate | None:
    if rate is None or rate.value is None or rate.lower is None or rate.upper is None:
        return None
    return _FullRate(rate.value, rate.lower, rate.upper)


def _is_below_median(row: SliceRow, other_rows: Sequence[SliceRow]) -> bool:
    """Return True if a row has a smaller share of its labels than half of the others."""
    shares = [
        other_row.completeness for other_row in other_rows if other_row.completeness is not None
    ]
    return bool(shares) and row.completeness is not None and row.completeness < median(shares)


def _worst_case(
    metric: Metric, rate: _FullRate, other_rate: float, share: float, complete: float
) -> WorstCase:
    """Return the worst case of P(auto_serve | hit) with `share` hits among the decisions."""
    low = possible_range(rate.lower, other_rate, share, complete)[0]
    high = possible_range(rate.upper, other_rate, share, complete)[1]
    return WorstCase(
        metric,
        min(rate.lower, floor(low * _DECIMALS + _SLACK) / _DECIMALS),
        max(rate.upper, ceil(high * _DECIMALS - _SLACK) / _DECIMALS),
    )


def possible_range(
    rate: float, miss_rate: float, share: float, complete: float
) -> tuple[float, float]:
    """Return the smallest and largest served share of the hits, for any missing labels.

    Args:
        rate: P(auto_serve | hit) by the present labels.
        miss_rate: P(auto_serve | no hit) by the present labels.
        share: share of the hits among all decisions.
        complete: share of present labels on each route.
    """
    served, held_back = rate * share, (1 - rate) * share
    route = served + miss_rate * (1 - share)
    missing_served, missing_held = (1 - complete) * route, (1 - complete) * (1 - route)
    least, most = max(served - missing_served, 0.0), min(served + missing_served, route)
    least_held, most_held = (
        max(held_back - missing_held, 0.0),
        min(held_back + missing_held, 1 - route),
    )
    return (
        _divide(least, least + most_held, empty=0.0),
        _divide(most, most + least_held, empty=1.0),
    )


def _divide(part: float, total: float, empty: float) -> float:
    return part / total if total > 0 else empty

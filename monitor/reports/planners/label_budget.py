"""Label budget: how many auto-served replies to audit next week for a chosen interval width.

Every reviewed reply gets a label; a share of the served replies is audited. Let R be the number of
unblocked decisions, T and F the TPR and FPR, and p the ready rate. The router then serves
R (T p + F (1 - p)) replies; R T p of them are ready. From these follow the counts of a week at each
share of audits, their bands, and the interval that would be shown
(:mod:`monitor.core.tables.rates`). The budget is the smallest share of the audit grid whose
interval is as narrow as wanted.

Only published numbers go in, so a plan has to hold for all rates that this week's intervals leave
possible. The plan assumes the ends of the intervals and next week's sampling error. It starts from
the lower edge of the band of decisions, less what chance takes away in one week of ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot, sqrt
from statistics import NormalDist

import numpy as np

from monitor.core.intervals import Z95, Floats
from monitor.core.metric import Metric
from monitor.core.publish.conclusion import limited
from monitor.core.publish.lines import all_places
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import ContractTable, ShownRate
from monitor.core.tables.bands import row_rule
from monitor.core.tables.counted import Counted
from monitor.core.tables.rates import LabelledCounts, labelled_estimate
from monitor.reports.planners.published_rates import Named, point, precision_of, reviewed_weekly
from monitor.reports.weekly_report import WeeklyReport

_Z90 = NormalDist().inv_cdf(0.90)
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """Label budget of one rate of a slice: audits needed next week for the wanted width.

    Attributes:
        metric: TPR or FPR.
        width_now: upper minus lower bound of this week; None if it is withheld.
        served: fewest served replies of the slice in a week.
        share: share of served replies to audit next week, from the audit grid; None if no share
            is enough.
        audits: fewest audits at that share; None likewise.
        narrowest: interval width with as many audits as the grid allows.
    """

    of: Named
    metric: Metric
    width_now: float | None
    served: int
    share: float | None
    audits: int | None
    narrowest: float


def label_budget(report: WeeklyReport) -> tuple[BudgetLine, ...]:
    """Return next week's audit budget per slice and labelled rate that a WeeklyReport shows."""
    return tuple(_lines(report))


def planned_metrics(contract: ContractTable) -> tuple[Metric, ...]:
    """Return those of TPR and FPR that a contract limits; both if it limits neither."""
    both = (Metric.TPR, Metric.FPR)
    return tuple(metric for metric in limited(contract) if metric in both) or both


def _lines(report: WeeklyReport) -> Iterator[BudgetLine]:
    for contract, window in report.windows():
        for place in all_places(contract, window):
            for metric in planned_metrics(contract):
                line = budget(place, metric, report.facts.interval_width, report.facts.audit_rates)
                if line is not None:
                    yield line


def budget(
    place: Place, metric: Metric, width: float, shares: Sequence[float]
) -> BudgetLine | None:
    """Return a BudgetLine with the least of ``shares`` that reaches ``width``; None if withheld.

    Args:
        place: published row of the slice.
        metric: TPR or FPR.
        width: wanted width of the interval, upper minus lower bound.
        shares: audit grid.
    """
    rates, reviewed = place.row.rates, reviewed_weekly(place)
    other_rate = point(rates.get(Metric.FPR if metric is Metric.TPR else Metric.TPR))
    rate, ready = rates.get(metric), rates.get(Metric.READY)
    if rate is None or ready is None or other_rate is None or not reviewed or not shares:
        return None
    corners = _corners(rate, ready, metric, width)
    if not corners:
        return None
    grid = np.sort(np.asarray(shares, np.float64))
    reviewed -= _Z90 * sqrt(reviewed)
    widths = _widths(place, metric, reviewed, [(*corner, other_rate) for corner in corners], grid)
    enough = np.flatnonzero(widths <= width + _SLACK)
    share = float(grid[enough[0]]) if len(enough) else None
    served = _served(place, reviewed_weekly(place))
    width_now = (
        None if rate.lower is None or rate.upper is None else round(rate.upper - rate.lower, 9)
    )
    audits = None if share is None else int(np.ceil(share * served - _SLACK))
    narrowest = round(float(widths[-1]), 2)
    return BudgetLine(Named.for_place(place), metric, width_now, served, share, audits, narrowest)


def _served(place: Place, reviewed: float) -> int:
    tpr, fpr, ready = (
        point(place.row.rates.get(metric)) or 0.0
        for metric in (Metric.TPR, Metric.FPR, Metric.READY)
    )
    return int(reviewed * (tpr * ready + fpr * (1 - ready)))


def _corners(
    rate: ShownRate, ready: ShownRate, metric: Metric, width: float
) -> list[tuple[float, float]]:
    """Return pairs (rate, share of hits) that a plan must hold for; none if bounds are withheld."""
    rate_point, lower, upper = point(rate), rate.lower, rate.upper
    if (
        rate_point is None
        or lower is None
        or upper is None
        or ready.lower is None
        or ready.upper is None
    ):
        return []
    chance = width / 2 * _Z90 / Z95
    rates = {
        max(0.0, rate_point - hypot(rate_point - lower, chance)),
        rate_point,
        min(1.0, rate_point + hypot(upper - rate_point, chance)),
    }
    hits = {ready.lower, ready.upper}
    if metric is Metric.FPR:
        hits = {1 - share for share in hits}
    return list(product(sorted(rates), sorted(hits)))


def _widths(
    place: Place,
    metric: Metric,
    reviewed: float,
    corners: Sequence[tuple[float, float, float]],
    shares: Floats,
) -> Floats:
    """Return, per audit share, the widest interval of the rate over all corners."""
    rates, hits, other_rates = (
        np.repeat(corner_column, len(shares)) for corner_column in zip(*corners, strict=True)
    )
    audited = np.tile(shares, len(corners))
    routed = (
        np.array([rates, 1 - rates]) * hits,
        np.array([other_rates, 1 - other_rates]) * (1 - hits),
    )
    hits_by_route, others_by_route = (max(reviewed, 0.0) * share for share in routed)
    labelled = np.stack([audited, np.ones(len(audited))])
    k = 1 if precision_of(place.contract).exact else place.contract.k
    decisions, hit_labels, other_labels = (
        Counted.from_bands(row_rule(np.round(counts.T).astype(np.int64), k, labels=labels))
        for counts, labels in (
            (hits_by_route + others_by_route, False),
            (hits_by_route * labelled, True),
            (others_by_route * labelled, True),
        )
    )
    ready, not_ready = (
        (hit_labels, other_labels) if metric is Metric.TPR else (other_labels, hit_labels)
    )
    counts = LabelledCounts(decisions, ready, not_ready, np.array([True, False]))
    planned_rate = labelled_estimate(counts, metric).at()
    widths = np.where(planned_rate.shown, planned_rate.upper - planned_rate.lower, 1.0)
    return np.asarray(widths.reshape(len(corners), -1).max(axis=0))

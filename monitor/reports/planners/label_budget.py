"""Label budget: how many auto-served replies to audit next week for a chosen interval width.

All that goes to review gets a label; of what is served a share is audited. With R decisions that
are not blocked, T and F the TPR and FPR and p the ready rate, R (T p + F (1 - p)) replies are
served, of which R T p are ready. From these follow the counts of a week at each share of audits,
their bands, and the interval that would be shown (:mod:`monitor.core.tables.rates`). The smallest
share of the audit grid whose interval is as narrow as wanted is the budget.

Nothing else than published numbers goes in, so a plan has to hold for all rates that the intervals
of this week leave possible: it is made for the ends of the intervals, for a rate that next week's
sample may show a little off, for the lower edge of the band of decisions, and for as few of them
as chance makes of that in one week of ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot, sqrt
from statistics import NormalDist

import numpy as np

from monitor.core.contract import Metric
from monitor.core.intervals import Z95, Floats
from monitor.core.publish.conclusion import limited
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import ContractTable, ShownRate
from monitor.core.tables.bands import row_rule
from monitor.core.tables.counted import Counted
from monitor.core.tables.rates import LabelledCounts, labelled_rate
from monitor.reports.planners.published_rates import (
    Named,
    point,
    precision_of,
    reviewed_weekly,
)
from monitor.reports.weekly_report import WeeklyReport

_Z90 = NormalDist().inv_cdf(0.90)
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """The budget of one rate of one slice.

    Attributes:
        of: which slice.
        metric: TPR or FPR.
        width_now: upper less lower bound of this week; None where it is withheld.
        served: replies of it that are served in a week, at least.
        share: of them to audit next week: one of the audit grid; None where none is enough.
        audits: how many that are, at least; None likewise.
        narrowest: the width with as many audits as the grid allows.
    """

    of: Named
    metric: Metric
    width_now: float | None
    served: int
    share: float | None
    audits: int | None
    narrowest: float


def label_budget(report: WeeklyReport) -> tuple[BudgetLine, ...]:
    """The budget of every labelled rate that is shown with all that it needs."""
    return tuple(_lines(report))


def planned_metrics(contract: ContractTable) -> tuple[Metric, ...]:
    """The labelled rates that a contract limits; both where it limits none."""
    both = (Metric.TPR, Metric.FPR)
    return tuple(metric for metric in limited(contract) if metric in both) or both


def _lines(report: WeeklyReport) -> Iterator[BudgetLine]:
    for contract, window in report.windows():
        for place in (total_place(contract, window), *places(contract, window)):
            for metric in planned_metrics(contract):
                found = budget(place, metric, report.facts.interval_width, report.facts.audit_rates)
                if found is not None:
                    yield found


def budget(
    place: Place, metric: Metric, width: float, shares: Sequence[float]
) -> BudgetLine | None:
    """The budget of one rate; None where a number that it needs is withheld.

    Args:
        place: as published.
        metric: TPR or FPR.
        width: wanted, from bound to bound.
        shares: that can be audited.
    """
    rates, reviewed = place.row.rates, reviewed_weekly(place)
    other = point(rates.get(Metric.FPR if metric is Metric.TPR else Metric.TPR))
    rate, ready = rates.get(metric), rates.get(Metric.READY)
    if rate is None or ready is None or other is None or not reviewed or not shares:
        return None
    found = _corners(rate, ready, metric, width)
    if not found:
        return None
    grid = np.sort(np.asarray(shares, np.float64))
    reviewed -= _Z90 * sqrt(reviewed)
    widths = _widths(place, metric, reviewed, [(*corner, other) for corner in found], grid)
    enough = np.flatnonzero(widths <= width + _SLACK)
    share = float(grid[enough[0]]) if len(enough) else None
    served = _served(place, reviewed_weekly(place))
    now = None if rate.lower is None or rate.upper is None else round(rate.upper - rate.lower, 9)
    audits = None if share is None else int(np.ceil(share * served - _SLACK))
    narrowest = round(float(widths[-1]), 2)
    return BudgetLine(Named.of(place), metric, now, served, share, audits, narrowest)


def _served(place: Place, reviewed: float) -> int:
    tpr, fpr, ready = (
        point(place.row.rates.get(m)) or 0.0 for m in (Metric.TPR, Metric.FPR, Metric.READY)
    )
    return int(reviewed * (tpr * ready + fpr * (1 - ready)))


def _corners(
    rate: ShownRate, ready: ShownRate, metric: Metric, width: float
) -> list[tuple[float, float]]:
    """Rates, and shares of hits among the decisions, that a plan has to hold for."""
    at, lower, upper = point(rate), rate.lower, rate.upper
    if at is None or lower is None or upper is None or ready.lower is None or ready.upper is None:
        return []
    chance = width / 2 * _Z90 / Z95
    rates = {
        max(0.0, at - hypot(at - lower, chance)),
        at,
        min(1.0, at + hypot(upper - at, chance)),
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
    """Largest width of the interval that would be shown at any corner, for each share."""
    rates, hits, others = (np.repeat(x, len(shares)) for x in zip(*corners, strict=True))
    audited = np.tile(shares, len(corners))
    routed = np.array([rates, 1 - rates]) * hits, np.array([others, 1 - others]) * (1 - hits)
    of_hits, of_others = (max(reviewed, 0.0) * share for share in routed)
    labelled = np.stack([audited, np.ones(len(audited))])
    k = 1 if precision_of(place.contract).exact else place.contract.k
    decisions, hit_labels, other_labels = (
        Counted.from_bands(row_rule(np.round(counts.T).astype(np.int64), k, labels=labels))
        for counts, labels in (
            (of_hits + of_others, False),
            (of_hits * labelled, True),
            (of_others * labelled, True),
        )
    )
    ready, not_ready = (
        (hit_labels, other_labels) if metric is Metric.TPR else (other_labels, hit_labels)
    )
    counts = LabelledCounts(decisions, ready, not_ready, np.array([True, False]))
    shown = labelled_rate(counts, metric)
    widths = np.where(shown.shown, shown.upper - shown.lower, 1.0)
    return np.asarray(widths.reshape(len(corners), -1).max(axis=0))

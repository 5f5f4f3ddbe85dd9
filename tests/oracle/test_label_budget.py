"""Seeded simulation: whoever audits as the label budget says gets the interval that was chosen.

Each of 200 weeks is reported as it was seen (rounded, banded, 2 to 20 % audited), its budget is
followed in a next week of the same router, and that week is reported by the same code.
"""

from __future__ import annotations

import numpy as np
import pytest
from released_rows import facts_of, released, report_of, rows_of
from slice_tables import simulate

from monitor.core.counts.coding import Coding
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.reports.planners.label_budget import BudgetLine, label_budget

GRID = (1.0, 0.75, 0.5, 0.33, 0.25, 0.2, 0.15, 0.1, 0.05, 0.02)
WEEKS = 200
HIT_BANDS, MISS_BANDS = (0.20, 0.45, 0.35), (0.75, 0.20, 0.05)


def shares(ready: float) -> Floats:
    """P(ready, band, route): the two upper bands are served."""
    out = np.zeros((2, 3, 2))
    for truth, bands in enumerate((MISS_BANDS, HIT_BANDS)):
        for band, share in enumerate(bands):
            out[truth, band, 0 if band else 1] = (ready if truth else 1 - ready) * share
    return out


def coding(audit: float) -> Coding:
    """In which the simulated strata of auto_serve have this audit rate."""
    return Coding((), audit_rates=(*[1.0] * 8, audit))


def weeks(
    seed: int, ready: float, decisions: int, audit: float, width: float
) -> tuple[BudgetLine, ...]:
    """The budgets of simulated weeks."""
    counts = simulate(np.random.default_rng(seed), shares(ready), decisions, WEEKS, audit)
    rows = rows_of(counts, coding(audit))
    facts = facts_of(Coding((), audit_rates=GRID), interval_width=width)
    return label_budget(report_of(released(rows, rows[0]), facts))


@pytest.mark.parametrize(
    ("ready", "decisions", "audit", "width"),
    [
        (0.5, 4_000, 0.05, 0.10),
        (0.8, 4_000, 0.05, 0.10),
        (0.8, 8_000, 0.20, 0.10),
        (0.5, 20_000, 0.02, 0.05),
        (0.3, 6_000, 0.10, 0.15),
    ],
)
def test_followed_it_meets_the_width_in_nine_weeks_of_ten(
    ready: float, decisions: int, audit: float, width: float
) -> None:
    lines = [
        one
        for one in weeks(3, ready, decisions, audit, width)
        if one.of.slice and one.share is not None
    ]
    met: dict[Metric, list[bool]] = {metric: [] for metric in (Metric.TPR, Metric.FPR)}
    for share in sorted({one.share for one in lines if one.share is not None}):
        its = [one for one in lines if one.share == share]
        rng = np.random.default_rng(int(1000 * share))
        counts = simulate(rng, shares(ready), decisions, len(its), share)
        for one, row in zip(its, rows_of(counts, coding(share)), strict=True):
            rate = row.rates[one.metric]
            assert rate.lower is not None
            assert rate.upper is not None
            met[one.metric].append(rate.upper - rate.lower <= width + 1e-9)
    followed = {metric: found for metric, found in met.items() if found}
    assert followed
    for metric, found in followed.items():
        assert np.mean(found) >= 0.90, (metric, len(found))

"""Label budget and detectable gaps: laws, hidden numbers, and what the sections say of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from published_lesson import full, hidden
from released_rows import facts_of, released, report_of, rows_of
from slice_tables import simulate

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.publish.lines import places
from monitor.core.publish.snapshot import SliceRow
from monitor.reports.planners.detectable import detectable
from monitor.reports.planners.label_budget import budget, label_budget
from monitor.reports.sections import label_plans
from monitor.reports.weekly_report import WeeklyReport

GRID = (1.0, 0.5, 0.25, 0.1, 0.05)
CODING = Coding((), audit_rates=(*[1.0] * 8, 0.05))
SHARES = np.array([[[0, 0.2], [0.05, 0]], [[0, 0.15], [0.6, 0]]])


def report(*rows: SliceRow, **facts: object) -> WeeklyReport:
    made = facts_of(Coding((), audit_rates=GRID), **facts)
    return report_of(released(rows, rows[0]), made)


def shown(decisions: int = 6_000, slices: int = 3) -> tuple[SliceRow, ...]:
    counts = simulate(np.random.default_rng(1), SHARES, decisions, slices, 0.05)
    return rows_of(counts, CODING, reference=COMPLEMENT)


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR])
def test_a_narrower_interval_never_needs_fewer_audits(metric: Metric) -> None:
    ((contract, window),) = report(*shown()).windows()
    place = next(places(contract, window))
    found = [budget(place, metric, width, GRID) for width in (0.5, 0.2, 0.1, 0.06, 0.01)]
    shares = [one.share or 2.0 for one in found if one]
    assert len(shares) == 5
    assert shares == sorted(shares)
    assert shares[-1] == 2.0, "one point is out of reach, and that is said"
    assert shares[0] < 2.0


def test_where_no_share_is_enough_the_narrowest_width_is_said() -> None:
    one = report(*shown(), interval_width=0.01)
    line = next(line for line in label_budget(one) if line.metric is Metric.FPR)
    assert line.share is None
    assert line.audits is None
    (made,) = label_plans.labels(one).tables
    said = [cell.text for row in made.rows for cell in row]
    assert f"not enough: {100 * line.narrowest:g} points at best" in said


def test_a_plan_counts_fewer_served_replies_than_there_may_be() -> None:
    row = shown()[0]
    one = next(x for x in label_budget(report(row)) if x.of.slice and x.metric is Metric.TPR)
    selection, blocked = row.rates[Metric.SELECTION], row.rates[Metric.BLOCKED]
    assert selection.support == pytest.approx(6_000, rel=0.05)
    assert blocked.upper is not None
    assert 0.9 * 6_000 * 0.66 < one.served <= 6_000 * 0.66
    assert one.share is not None
    assert one.audits == pytest.approx(one.share * one.served, abs=1)


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.READY, Metric.BLOCKED, Metric.SELECTION])
def test_without_a_number_that_it_needs_there_is_no_plan(metric: Metric) -> None:
    row = shown()[0]
    less = replace(row, rates={m: r for m, r in row.rates.items() if m is not metric})
    assert not [one for one in label_budget(report(less)) if one.of.slice]


def test_hidden_slices_have_no_plan() -> None:
    rows = shown()
    one = report(*rows[:2], hidden("w=hidden"), full("w=coded"))
    assert {line.of.slice for line in label_budget(one)} == {"", rows[0].slice, rows[1].slice}
    none = label_plans.labels(report(hidden("w=a")))
    assert (none.notes, none.tables) == ((), ())


def test_more_labels_find_smaller_gaps() -> None:
    few, many = (detectable(report(*shown(n))) for n in (6_000, 60_000))
    pairs = [(a.gap or 2.0, b.gap or 2.0) for a, b in zip(few, many, strict=True)]
    assert pairs
    assert all(more < less for less, more in pairs)
    assert all(one.gap is None or one.gap > one.limit for one in few)

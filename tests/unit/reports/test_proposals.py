"""Proposed contracts: limits that the baseline kept, supports that make intervals narrow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from published_lesson import full, hidden, lesson

from monitor.core.metric import Metric
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import ShownGap, ShownRate, SliceRow
from monitor.core.time import IsoWeek
from monitor.reports.proposals import LEAST_LIMIT, MetricProposal, propose

WEEK = IsoWeek.named("2024-W40")
LIMITED = {Metric.TPR: 0.1}


def row(name: str, support: int, lower: float, upper: float) -> SliceRow:
    """A slice with one gap, in the middle of its interval."""
    gap = ShownGap("complement", (lower + upper) / 2, lower, upper)
    return SliceRow(
        f"channel={name}",
        full("").states,
        {Metric.TPR: ShownRate(0.8, 0.7, 0.9, support)},
        {Metric.TPR: gap},
    )


def release(
    *rows: SliceRow, week: IsoWeek = WEEK, gaps: Mapping[Metric, float] = LIMITED
) -> Release:
    (table,) = lesson(*rows, at=week.end).contracts
    table = replace(table, max_gaps=gaps, min_levels={}, max_levels={})
    return Release(week.name, week.start, week.end, (table,))


def tpr(*releases: Release) -> MetricProposal:
    (found,) = propose("lesson", releases).metrics
    assert found.metric is Metric.TPR
    return found


def test_the_limit_is_above_every_interval_of_the_slices_that_are_decided() -> None:
    found = tpr(
        release(row("a", 1_000, -0.02, 0.082), row("b", 900, -0.071, 0.03)),
        release(row("a", 1_000, -0.03, 0.06), row("b", 900, -0.112, -0.01), week=WEEK.before),
    )
    assert found.max_gap == 0.12, "up to a whole point, whoever is worse off, in any week"
    assert found.largest == pytest.approx(0.061)
    assert [one.decided for one in found.slices] == [True, True]
    assert found.detectable == pytest.approx(0.12 + 0.0505), "by the narrowest week of each"


def test_support_is_what_narrow_intervals_need() -> None:
    """An interval of +-5 points at 400 is one of +-10 at a quarter of that."""
    found = tpr(release(row("a", 400, -0.05, 0.05), row("small", 30, -0.25, 0.25)))
    assert found.min_support == 10 * math.ceil(30 * 2.5**2 / 10) == 190
    kept = {one.slice: (one.support, one.decided) for one in found.slices}
    assert kept == {"channel=a": (400, True), "channel=small": (30, False)}
    assert found.max_gap == LEAST_LIMIT, "a slice that is not decided moves no limit"


def test_what_is_hidden_is_listed_as_hidden_and_tells_nothing() -> None:
    found = tpr(release(row("a", 400, -0.05, 0.05), hidden("channel=fax")))
    last = found.slices[-1]
    assert (last.slice, last.support, last.half_width, last.decided) == (
        *("channel=fax", None, None),
        False,
    )
    nothing = tpr(release(hidden("channel=a"), hidden("channel=b")))
    assert (nothing.max_gap, nothing.min_support, nothing.largest) == (None, None, None)
    assert nothing.detectable is None


def test_a_longer_window_is_proposed_where_a_week_decides_too_few() -> None:
    wide = [row(str(i), 30, -0.25, 0.25) for i in range(3)]
    assert propose("lesson", [release(*wide)]).window == "28d"
    assert propose("lesson", [release(row("a", 400, -0.05, 0.05))]).window == "7d"


def test_a_contract_that_no_week_has_has_nothing_to_propose() -> None:
    found = propose("other", [release(row("a", 400, -0.05, 0.05))])
    assert (found.metrics, found.window) == ((), "7d")


def test_a_metric_whose_level_alone_is_limited_gets_no_limit_on_its_gap() -> None:
    (table,) = release(row("a", 400, -0.05, 0.05)).contracts
    levels = replace(release(), contracts=(replace(table, max_gaps={}, min_levels=LIMITED),))
    assert propose("lesson", [levels]).metrics == ()

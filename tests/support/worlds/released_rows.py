"""Counts as a Release shows them: every slice is a row of one group-by, by the product's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from monitor.core.contract import Limits, Metric
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import Opened
from monitor.core.publish.release import Release, Revision, encode
from monitor.core.publish.rows import Policy, Rolled, build_rows
from monitor.core.publish.snapshot import ContractTable, GroupTable, Period, SliceRow, WindowTable
from monitor.core.time import IsoWeek
from monitor.reports import ReportFacts, WeeklyReport

WEEK = IsoWeek.named("2026-W23")
TENTH = Fraction("0.10")
LIMITS = Limits(TENTH, TENTH, None, None, None, 50, 30)


def rows_of(
    counts: SliceCounts, coding: Coding, *, k: int = 11, exact: bool = False, reference: str = ""
) -> tuple[SliceRow, ...]:
    """The rows of a group-by, all of whose slices the guards let through."""
    policy = Policy(LIMITS, coding, Precision(1 if exact else k, exact))
    everything = np.ones(len(counts.slices), bool)
    opened = Opened(everything, everything)
    rows = build_rows(policy, Rolled(counts, counts), opened, reference or None).rows
    return rows


def released(
    rows: Sequence[SliceRow], total: SliceRow, *, k: int = 11, exact: bool = False
) -> Release:
    """A Release with one group-by ``w`` of these rows."""
    period = Period(WEEK.start, WEEK.end)
    group = GroupTable("w", tuple(rows), (), {}, period, period)
    whole = replace(total, slice="", gaps={})
    window = WindowTable(WEEK.name, whole, (group,), None, period, period)
    gaps = {Metric.TPR: 0.1, Metric.FPR: 0.1}
    table = ContractTable(
        *("lesson", "1", "tests", exact, 1 if exact else k, WEEK.name),
        *(gaps, {}, {}, {Metric.TPR: 50, Metric.FPR: 30}, (window,)),
    )
    return Release(WEEK.name, WEEK.start, WEEK.end, (table,))


def report_of(release: Release, facts: ReportFacts) -> WeeklyReport:
    """The report of a Release, its first revision."""
    revision = Revision(release.week, 1, WEEK.end, encode(release))
    return WeeklyReport(revision, 1, release, None, facts)


def facts_of(coding: Coding, **changed: object) -> ReportFacts:
    """Facts of settings that have this coding and nothing else."""
    rates = tuple(sorted(set(coding.audit_rates), reverse=True))
    facts = ReportFacts("slicewatch 1", (), (), rates, coding.band_names, 30, ())
    return ReportFacts(**{**_fields(facts), **changed})  # type: ignore[arg-type]


def _fields(facts: ReportFacts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in facts.__slots__}

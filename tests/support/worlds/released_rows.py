"""Counts as a Release shows them: every slice is a row of one group-by, by the product's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from monitor.core.contract import Contract, GroupBy, Limits
from monitor.core.counts.cells import Counter, Route, decode_strata, parse_atom
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.metric import Metric
from monitor.core.publish.calendar_contract import ContractInTables
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.release import Release, Revision, encode
from monitor.core.publish.snapshot import ContractTable, GroupTable, Period, SliceRow, WindowTable
from monitor.core.tables.bands import row_rule
from monitor.core.tables.layout import Layout, Row
from monitor.core.tables.reader import Frame, Measure, Table
from monitor.core.tables.settings import Part
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.time import IsoWeek
from monitor.reports import ReportFacts, WeeklyReport

WEEK = IsoWeek.named("2026-W23")
TENTH = Fraction("0.10")
_SPAN = Span(SpanKind.WEEK, 0)
LIMITS = Limits(TENTH, TENTH, None, None, None, 50, 30)


def rows_of(
    counts: SliceCounts,
    coding: Coding,
    *,
    k: int = 11,
    exact: bool = False,
    reference: str = "",
    limits: Limits | None = None,
) -> tuple[SliceRow, ...]:
    """The rows of a group-by ``w``, from tables that show these counts."""
    k = 1 if exact else k
    rows = tuple(Row(text) for text in counts.slices)
    rests = tuple(Row(text, complement=True) for text in counts.slices)
    strata = decode_strata(counts.strata)
    numbers_of = range(len(coding.band_names))
    bands = tuple(Row(text, band=band) for band in numbers_of for text in counts.slices)
    in_bands = [counts.values * (strata.band == band)[:, None] for band in numbers_of]
    both = np.concatenate([counts.values, counts.complements.values, *in_bands])
    places = list(zip(strata.route.tolist(), strata.rate.tolist(), strict=True))
    parts = tuple(
        Part(Route(route))
        if route == Route.BLOCKED_BY_EVIDENCE
        else Part(Route(route), coding.audit_rates[rate])
        for route, rate in sorted(set(places))
    )
    column_of = np.array([sorted(set(places)).index(place) for place in places])
    ready = both[:, :, Counter.READY]
    measures = {
        Measure.DECISIONS: both[:, :, Counter.N],
        Measure.READY: ready,
        Measure.NOT_READY: both[:, :, Counter.LABELLED] - ready,
        Measure.UNANSWERED: (both[:, :, Counter.Q] - both[:, :, Counter.LABELLED]).clip(0),
    }
    tables = UseCaseTables(parts)
    for measure, numbers in measures.items():
        by_part = np.zeros((len(both), len(parts)), np.int64)
        np.add.at(by_part.T, column_of, numbers.T)
        chosen = [
            p for p, part in enumerate(parts) if measure is Measure.DECISIONS or part.audit_rate
        ]
        names = tuple(parts[p].name for p in chosen)
        frame = Frame(_SPAN, Layout((*rows, *rests, *bands), ()), names)
        labels = measure is Measure.UNANSWERED
        tables.add([Table(frame, measure, row_rule(by_part[:, chosen], k, labels=labels))])
    (attributes,) = {tuple(parse_atom(text)) for text in counts.slices}
    group = GroupBy(attributes, reference or "complement")
    names = ("lesson", "1", "tests")
    contract = Contract(*names, limits or LIMITS, "7d", (group,), synthetic=exact, k=k)
    seen = ContractInTables(contract, tables, coding)
    return seen.group(seen.basis_of_week(group, _SPAN)).rows


def released(
    rows: Sequence[SliceRow], total: SliceRow, *, k: int = 11, exact: bool = False
) -> Release:
    """A Release with one group-by ``w`` of these rows."""
    period = Period(WEEK.start, WEEK.end)
    group = GroupTable("w", tuple(rows), (), period, period)
    whole = replace(total, slice="", gaps={})
    window = WindowTable(WEEK.name, whole, (group,), period, period)
    gaps = {Metric.TPR: 0.1, Metric.FPR: 0.1}
    table = ContractTable(
        *("lesson", "1", "tests", exact, 1 if exact else k, WEEK.name),
        *(gaps, {}, {}, {Metric.TPR: 50, Metric.FPR: 30}, (window,)),
    )
    return Release(WEEK.name, WEEK.start, WEEK.end, (table,))


def report_of(release: Release, facts: ReportFacts) -> WeeklyReport:
    """The report of a Release, its first revision."""
    revision = Revision(release.week, 1, WEEK.end, encode(release))
    return WeeklyReport(revision, 1, None, release=release, facts=facts)


def facts_of(coding: Coding, **changed: object) -> ReportFacts:
    """Facts of settings that have this coding and nothing else."""
    rates = tuple(sorted(set(coding.audit_rates), reverse=True))
    facts = ReportFacts("slicewatch 1", (), (), rates, coding.band_names, 30, ())
    return ReportFacts(**{**_fields(facts), **changed})  # type: ignore[arg-type]


def _fields(facts: ReportFacts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in facts.__slots__}

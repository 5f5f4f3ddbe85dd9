"""Tables of one contract, computed only from published calendar tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import MISSING, OTHER, parse_atom
from monitor.core.counts.coding import Coding
from monitor.core.metric import Among, Metric
from monitor.core.publish.agreement import rates_if_wrong, shown_agreement
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.calendar_rows import GroupInTables, MetricRows, shown_rates
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ContractTable,
    GroupTable,
    LimitKind,
    OwnLimit,
    ShownAgreement,
    SliceRow,
    Spread,
    WindowTable,
)
from monitor.core.publish.states import with_many_blocked
from monitor.core.rates.gaps import spread
from monitor.core.tables.bands import Detail
from monitor.core.tables.layout import Row
from monitor.core.tables.reader import Measure
from monitor.core.tables.spans import Span
from monitor.core.time import TimeSpan, WindowKind


@dataclass(frozen=True, slots=True)
class TableBasis:
    """Inputs of one group-by's table; equal inputs give equal tables.

    Attributes:
        group: the group-by; None for the total.
        slices: slices of the rows.
        spans: spans of each metric of the table, oldest first; empty before any has closed.
        pairs: span of the decisions with two labels, for the agreement of reviewers; None without
            such decisions, or if the table does not show agreement.
        unanswered: span whose missing labels verdicts allow for; None without a table of them.
    """

    group: GroupBy | None
    slices: tuple[str, ...]
    spans: tuple[tuple[Metric, tuple[Span, ...]], ...]
    pairs: Span | None = None
    unanswered: Span | None = None


@dataclass(frozen=True, slots=True)
class ContractInTables:
    """Contract with the published tables of its use case, from which its own tables are computed.

    Attributes:
        contract: the comparisons and the limits.
        tables: published tables.
        coding: present coding.
    """

    contract: Contract
    tables: UseCaseTables
    coding: Coding
    _groups: dict[tuple[TableBasis, int | None], GroupTable] = field(default_factory=dict)
    _in_tables: dict[GroupBy | None, GroupInTables] = field(default_factory=dict)

    def basis(
        self, group: GroupBy | None, kind: WindowKind, left_out: Sequence[TimeSpan] = ()
    ) -> TableBasis:
        """Return the inputs of a group-by's table for a window: the newest spans of each metric.

        Args:
            group: the group-by; None for the total.
            kind: kind of the window.
            left_out: event time of bad data; spans that touch it do not count.
        """
        group_tables = self._group_in_tables(group)
        metrics = [m for m in self.contract.metrics if kind.labelled or not m.labelled]
        spans = (
            (metric, group_tables.rates.spans(kind.name, metric, self.contract.k))
            for metric in metrics
        )
        pairs = self.tables.newest(Measure.PAIRS, kind.name)
        unanswered = self.tables.last_closed(Measure.UNANSWERED, kind.name)
        return TableBasis(
            group,
            group_tables.slices,
            tuple((metric, _without(chosen, left_out)) for metric, chosen in spans),
            pairs if kind.name == self.contract.window else None,
            next(iter(_without((unanswered,), left_out)), None) if unanswered else None,
        )

    def basis_of_week(self, group: GroupBy | None, week: Span) -> TableBasis:
        """Return the inputs of a group-by's table for a closed week; metrics may lack tables."""
        group_tables = self._group_in_tables(group)
        spans = (
            (metric, (week,) if group_tables.rates.has(week, metric) else ())
            for metric in self.contract.metrics
        )
        pairs, unanswered = (
            week if week in self.tables.tables.get(measure, {}) else None
            for measure in (Measure.PAIRS, Measure.UNANSWERED)
        )
        return TableBasis(group, group_tables.slices, tuple(spans), pairs, unanswered)

    def group(self, basis: TableBasis, compared: int | None = None) -> GroupTable:
        """Return the table of a group-by from its inputs; computed once for equal inputs.

        Args:
            basis: inputs of the table.
            compared: comparisons whose bounds hold together, if the table is part of another.
        """
        place = basis, compared
        if place not in self._groups:  # on the first day, longer windows have the same hours
            self._groups[place] = self._group(basis, compared)
        return self._groups[place]

    def _group(self, basis: TableBasis, compared: int | None) -> GroupTable:
        """Return a group-by's table: rows that have rates or are declared, and their spreads."""
        group_tables = replace(self._group_in_tables(basis.group), compared=compared)
        rows_by_metric = {
            metric: group_tables.over(spans, metric, basis.unanswered)
            for metric, spans in basis.spans
        }
        calibration = self._calibration(group_tables, dict(basis.spans).get(Metric.READY, ()))
        agreement = self._agreement(group_tables, basis.pairs)
        columns = enumerate(zip(group_tables.slices, calibration, agreement, strict=True))
        rows = [_row(place, rows_by_metric, *column) for place, column in columns]
        primary = self.contract.primary
        labelled = rows_by_metric.get(primary if primary.labelled else Metric.TPR)
        return GroupTable(
            group_by="" if basis.group is None else basis.group.name,
            rows=tuple(row for row in rows if row.rates or _is_declared(row.slice)),
            spreads=tuple(_spreads(rows_by_metric)) if basis.group is not None else (),
            decisions=rows_by_metric[Metric.SELECTION].period,
            labelled=None if labelled is None else labelled.period,
        )

    def _group_in_tables(self, group: GroupBy | None) -> GroupInTables:
        """Return a group-by with the published tables; all windows share its sums and rates."""
        if group not in self._in_tables:
            self._in_tables[group] = GroupInTables.from_tables(self.contract, group, self.tables)
        return self._in_tables[group]

    def _agreement(
        self, group_tables: GroupInTables, span: Span | None
    ) -> list[ShownAgreement | None]:
        """Return the shown agreement of reviewers for each slice; None if hidden or no span."""
        if span is None:
            return [None] * len(group_tables.slices)
        rows = tuple(Row(text) for text in group_tables.slices)
        bands = self.tables.bands_in(span, Measure.PAIRS, rows)
        return [
            shown_agreement(low[1:], high[1:], self.contract.k) if detail == Detail.COUNTS else None
            for low, high, detail in zip(bands.low, bands.high, bands.detail, strict=True)
        ]

    def table(self, windows: Sequence[WindowTable]) -> ContractTable:
        """Return the table of the contract, with its limits and the given tables of windows."""
        contract, limits = self.contract, self.contract.limits
        table = ContractTable(
            contract=contract.name,
            version=contract.version,
            owner=contract.owner,
            synthetic=contract.synthetic,
            k=contract.k,
            window=contract.window,
            max_gaps=_as_floats({metric: limits.max_gap(metric) for metric in Metric}),
            min_levels=_as_floats({metric: limits.min_level(metric) for metric in Metric}),
            max_levels=_as_floats({metric: limits.max_level(metric) for metric in Metric}),
            min_supports={
                metric: limits.min_support(metric)
                for metric in self.contract.metrics
                if metric.row.among is not Among.SERVED
            },
            windows=tuple(windows),
            review_due=contract.review_due,
            primary=contract.primary,
            max_age=contract.max_age,
            min_ratios=_as_floats({metric: limits.min_ratio(metric) for metric in Metric}),
            own_limits=tuple(own_limits(contract)),
            max_blocked=contract.max_blocked,
        )
        return with_many_blocked(table)

    def _calibration(
        self, group_tables: GroupInTables, spans: Sequence[Span]
    ) -> list[tuple[CalibrationCell, ...]]:
        """Return P(ready | score band) by band for each slice; empty without tables by score."""
        names = self.coding.band_names
        rows = tuple(
            Row(text, band=band) for text in group_tables.slices for band in range(len(names))
        )
        bands = group_tables.rates.beside(rows)
        spans = self.tables.spans_by_score(spans, Metric.READY) if spans else ()
        if not spans or not bands.has_any(spans):
            return [()] * len(group_tables.slices)
        exact = self.contract.k == 1
        rates = shown_rates(bands.rate(spans, Metric.READY), exact=exact)
        cells = [
            CalibrationCell(names[place % len(names)], rate) for place, rate in enumerate(rates)
        ]
        starts = range(0, len(cells), len(names))
        return [tuple(cells[start : start + len(names)]) for start in starts]


def _is_declared(slice_name: str) -> bool:
    """Return True for a slice without ``__other__`` and ``__missing__``; it always has a row."""
    return not {OTHER, MISSING} & {*parse_atom(slice_name).values()}


def _without(spans: tuple[Span, ...], left_out: Sequence[TimeSpan]) -> tuple[Span, ...]:
    return tuple(
        span
        for span in spans
        if not any(bad.start < span.end and span.start < bad.end for bad in left_out)
    )


def _row(
    place: int,
    rows_by_metric: Mapping[Metric, MetricRows],
    text: str,
    calibration: tuple[CalibrationCell, ...],
    agreement: ShownAgreement | None,
) -> SliceRow:
    """Return a slice's row from the rows of all metrics at its place."""
    rates = {metric: rate for metric, rows in rows_by_metric.items() if (rate := rows.rates[place])}
    completeness = [
        rows.completeness[place] for metric, rows in rows_by_metric.items() if metric.labelled
    ]
    return SliceRow(
        slice=text,
        states={metric: rows.states[place] for metric, rows in rows_by_metric.items()},
        rates=rates_if_wrong(rates, agreement.wrong if agreement else None),
        gaps={
            metric: shown for metric, rows in rows_by_metric.items() if (shown := rows.gaps[place])
        },
        as_labelled={
            metric: naive
            for metric, rows in rows_by_metric.items()
            if (naive := rows.as_labelled[place]) is not None
        },
        calibration=calibration if Metric.READY in rates else (),
        agreement=agreement if rates else None,
        completeness=next((share for share in completeness if share is not None), None),
    )


def _spreads(rows_by_metric: Mapping[Metric, MetricRows]) -> Iterator[Spread]:
    """Yield the spread from worst to best slice for each metric with at least two points."""
    for metric, rows in rows_by_metric.items():
        points = [np.nan if r is None or r.value is None else r.value for r in rows.rates]
        ends = spread(metric, points)
        if ends is not None:
            worst, best, distance = ends
            yield Spread(metric, rows.slices[worst], rows.slices[best], round(distance, 3))


def own_limits(contract: Contract) -> Iterator[OwnLimit]:
    """Yield each limit of a group-by or slice in its published form, in the contract's order."""
    for declared in contract.own_limits:
        limits = declared.alone(contract.limits)
        for metric in Metric:
            for kind, limit in (
                (LimitKind.MAX_GAP, limits.max_gap(metric)),
                (LimitKind.MIN_RATIO, limits.min_ratio(metric)),
                (LimitKind.MIN_LEVEL, limits.min_level(metric)),
                (LimitKind.MAX_LEVEL, limits.max_level(metric)),
            ):
                if limit is not None:
                    yield OwnLimit(declared.group_by, declared.slice, metric, kind, float(limit))


def _as_floats(limits: Mapping[Metric, Fraction | None]) -> dict[Metric, float]:
    return {metric: float(limit) for metric, limit in limits.items() if limit is not None}

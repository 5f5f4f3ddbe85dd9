"""The tables of one contract, from published calendar tables and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from monitor.core.contract import USUAL_METRICS, Contract, GroupBy, Metric
from monitor.core.counts.cells import MISSING, OTHER, parse_atom
from monitor.core.counts.coding import Coding
from monitor.core.publish.agreement import shown_agreement
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
from monitor.core.rates.gaps import spread
from monitor.core.tables.bands import Detail
from monitor.core.tables.layout import Row
from monitor.core.tables.reader import Measure
from monitor.core.tables.spans import Span
from monitor.core.time import TimeSpan, WindowKind


@dataclass(frozen=True, slots=True)
class TableBasis:
    """What the table of one group-by is computed from; tables of an equal basis are equal.

    Attributes:
        group: which group-by; None for the total.
        slices: its rows.
        spans: of each metric that the table has, oldest first; empty before any has closed.
        pairs: the span whose decisions with two labels say how far reviewers agree; None where it
            has none, or the table does not tell it.
    """

    group: GroupBy | None
    slices: tuple[str, ...]
    spans: tuple[tuple[Metric, tuple[Span, ...]], ...]
    pairs: Span | None = None


@dataclass(frozen=True, slots=True)
class ContractInTables:
    """One contract, seen through the published tables of its use case.

    Attributes:
        contract: the comparisons and the limits.
        tables: published ones.
        coding: of now.
    """

    contract: Contract
    tables: UseCaseTables
    coding: Coding
    _groups: dict[tuple[TableBasis, int | None], GroupTable] = field(default_factory=dict)

    def basis(
        self, group: GroupBy | None, kind: WindowKind, left_out: Sequence[TimeSpan] = ()
    ) -> TableBasis:
        """The newest spans of a window, for each metric of a group-by.

        Args:
            group: which; None for the total.
            kind: of the window.
            left_out: event time whose data are known to be bad: spans that touch it do not count.
        """
        seen = GroupInTables.of(self.contract, group, self.tables)
        metrics = [m for m in self.contract.metrics if kind.labelled or not m.labelled]
        spans = (
            (metric, seen.rates.spans(kind.name, metric, self.contract.k)) for metric in metrics
        )
        return TableBasis(
            group,
            seen.slices,
            tuple((metric, _without(chosen, left_out)) for metric, chosen in spans),
            self.tables.newest_pairs(kind.name) if kind.name == self.contract.window else None,
        )

    def basis_of_week(self, group: GroupBy | None, week: Span) -> TableBasis:
        """One closed week, for each metric whose tables are published."""
        seen = GroupInTables.of(self.contract, group, self.tables)
        spans = (
            (metric, (week,) if seen.rates.has(week, metric) else ())
            for metric in self.contract.metrics
        )
        has_pairs = week in self.tables.tables.get(Measure.PAIRS, {})
        return TableBasis(group, seen.slices, tuple(spans), week if has_pairs else None)

    def group(self, basis: TableBasis, compared: int | None = None) -> GroupTable:
        """The table of one group-by.

        Args:
            basis: what it is computed from.
            compared: comparisons whose bounds hold together, where the table is a part of another.
        """
        place = basis, compared
        if place not in self._groups:  # on the first day, longer windows have the same hours
            self._groups[place] = self._group(basis, compared)
        return self._groups[place]

    def _group(self, basis: TableBasis, compared: int | None) -> GroupTable:
        seen = GroupInTables.of(self.contract, basis.group, self.tables)
        seen = replace(seen, compared=compared)
        made = {metric: seen.over(spans, metric) for metric, spans in basis.spans}
        calibration = self._calibration(seen, dict(basis.spans).get(Metric.READY, ()))
        agreement = self._agreement(seen, basis.pairs)
        rows = [
            replace(row, agreement=agreement[place] if row.rates else None)
            for place, text in enumerate(seen.slices)
            if (row := _row(place, text, made, calibration[place])).rates or _is_declared(text)
        ]
        primary = self.contract.primary_metric
        labelled = made.get(primary if primary.labelled else Metric.TPR)
        return GroupTable(
            group_by="" if basis.group is None else basis.group.name,
            rows=tuple(rows),
            spreads=tuple(_spreads(made)) if basis.group is not None else (),
            decisions=made[Metric.SELECTION].period,
            labelled=None if labelled is None else labelled.period,
        )

    def _agreement(self, seen: GroupInTables, span: Span | None) -> list[ShownAgreement | None]:
        """Agreement of the reviewers of every slice."""
        if span is None:
            return [None] * len(seen.slices)
        rows = tuple(Row(text) for text in seen.slices)
        bands = self.tables.bands_in(span, Measure.PAIRS, rows)
        return [
            shown_agreement(low[1:], high[1:], self.contract.k) if detail == Detail.COUNTS else None
            for low, high, detail in zip(bands.low, bands.high, bands.detail, strict=True)
        ]

    def table(self, windows: Sequence[WindowTable]) -> ContractTable:
        """The whole contract."""
        contract, limits = self.contract, self.contract.limits
        return ContractTable(
            contract=contract.name,
            version=contract.version,
            owner=contract.owner,
            synthetic=contract.synthetic,
            k=contract.k,
            window=contract.window,
            max_gaps=_numbers({metric: limits.max_gap(metric) for metric in Metric}),
            min_levels=_numbers({metric: limits.min_level(metric) for metric in Metric}),
            max_levels=_numbers({metric: limits.max_level(metric) for metric in Metric}),
            min_supports={metric: limits.min_support(metric) for metric in USUAL_METRICS},
            windows=tuple(windows),
            review_due=contract.review_due,
            primary=contract.primary_metric,
            max_age=contract.max_age,
            min_ratios=_numbers({metric: limits.min_ratio(metric) for metric in Metric}),
            own_limits=tuple(own_limits(contract)),
        )

    def _calibration(
        self, seen: GroupInTables, spans: Sequence[Span]
    ) -> list[tuple[CalibrationCell, ...]]:
        """P(ready | score band) of every slice, where the tables have rows of score bands."""
        names = self.coding.band_names
        rows = tuple(Row(text, band=band) for text in seen.slices for band in range(len(names)))
        bands = seen.rates.beside(rows)
        spans = self.tables.spans_by_score(spans, Metric.READY) if spans else ()
        if not spans or not bands.has_any(spans):
            return [()] * len(seen.slices)
        exact = self.contract.k == 1
        rates = shown_rates(bands.rate(spans, Metric.READY), exact=exact)
        cells = [
            CalibrationCell(names[place % len(names)], rate) for place, rate in enumerate(rates)
        ]
        starts = range(0, len(cells), len(names))
        return [tuple(cells[start : start + len(names)]) for start in starts]


def _is_declared(slice_name: str) -> bool:
    """Return True for a slice whose values are all declared: it has a row even if it is hidden."""
    return not {OTHER, MISSING} & {*parse_atom(slice_name).values()}


def _without(spans: tuple[Span, ...], left_out: Sequence[TimeSpan]) -> tuple[Span, ...]:
    return tuple(
        span
        for span in spans
        if not any(bad.start < span.end and span.start < bad.end for bad in left_out)
    )


def _row(
    place: int,
    text: str,
    made: Mapping[Metric, MetricRows],
    calibration: tuple[CalibrationCell, ...],
) -> SliceRow:
    rates = {metric: rate for metric, rows in made.items() if (rate := rows.rates[place])}
    completeness = [rows.completeness[place] for metric, rows in made.items() if metric.labelled]
    return SliceRow(
        slice=text,
        states={metric: rows.states[place] for metric, rows in made.items()},
        rates=rates,
        gaps={metric: shown for metric, rows in made.items() if (shown := rows.gaps[place])},
        as_labelled={
            metric: naive
            for metric, rows in made.items()
            if (naive := rows.as_labelled[place]) is not None
        },
        calibration=calibration if Metric.READY in rates else (),
        completeness=next((share for share in completeness if share is not None), None),
    )


def _spreads(made: Mapping[Metric, MetricRows]) -> Iterator[Spread]:
    """Worst to best slice of each metric, over the rates that have a point."""
    for metric, rows in made.items():
        points = [np.nan if r is None or r.value is None else r.value for r in rows.rates]
        ends = spread(metric, points)
        if ends is not None:
            worst, best, distance = ends
            yield Spread(metric, rows.slices[worst], rows.slices[best], round(distance, 3))


def own_limits(contract: Contract) -> Iterator[OwnLimit]:
    """The limits of group-bys and slices as they are published, in the order of the contract."""
    for own in contract.own_limits:
        limits = own.alone(contract.limits)
        for metric in Metric:
            for kind, limit in (
                (LimitKind.MAX_GAP, limits.max_gap(metric)),
                (LimitKind.MIN_RATIO, limits.min_ratio(metric)),
                (LimitKind.MIN_LEVEL, limits.min_level(metric)),
                (LimitKind.MAX_LEVEL, limits.max_level(metric)),
            ):
                if limit is not None:
                    yield OwnLimit(own.group_by, own.slice, metric, kind, float(limit))


def _numbers(limits: Mapping[Metric, Fraction | None]) -> dict[Metric, float]:
    return {metric: float(limit) for metric, limit in limits.items() if limit is not None}

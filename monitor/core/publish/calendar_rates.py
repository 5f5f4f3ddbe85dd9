"""Rates of one group-by, computed only from published calendar tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from monitor.core.counts.cells import Int64s, Route
from monitor.core.intervals import Z95, Floats
from monitor.core.metric import Among, Metric
from monitor.core.rates.estimates import HIT_ROUTES, RateColumns
from monitor.core.tables.bands import Bands, Bools, Detail
from monitor.core.tables.completeness import (
    MissingLabels,
    completeness,
    missing_labels,
    with_worst_answers,
)
from monitor.core.tables.counted import Counted
from monitor.core.tables.layout import Row
from monitor.core.tables.rates import (
    LabelledCounts,
    RateEstimate,
    ShownRate,
    labelled_estimate,
    selection_estimate,
)
from monitor.core.tables.reader import LABEL_MEASURES, Measure, Table
from monitor.core.tables.settings import PAIR_PARTS, Part
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.tables.windows import chosen_spans


def _weeks(window: str) -> tuple[SpanKind, ...]:
    """Return the kinds of spans of weeks that a window is made of, the longest first."""
    return (SpanKind.FOUR_WEEKS, SpanKind.WEEK) if window == "28d" else (SpanKind.WEEK,)


def _labels_of(metric: Metric) -> tuple[Measure, ...]:
    """Return the label tables that must show their counts if a rate is to be shown."""
    if not metric.labelled:
        return ()
    by_trials = {Among.READY: (Measure.READY,), Among.NOT_READY: (Measure.NOT_READY,)}
    return by_trials.get(metric.row.among, LABEL_MEASURES)


class LabelSizes(NamedTuple):
    """Sizes of all rows in the label tables of one span, which decide the spans of a window.

    Attributes:
        bands: sizes, in decisions that the labels stand for; a row shows what all measures show.
        silent: rows whose labels do not come, shape (rows,).
    """

    bands: Bands
    silent: Bools


@dataclass
class UseCaseTables:
    """Published tables of one use case: one edition per measure and span.

    Attributes:
        parts: the newest columns; older tables are 0 in parts that they lack.
        tables: tables by measure and span; their layouts may differ.
    """

    parts: tuple[Part, ...] = ()
    tables: dict[Measure, dict[Span, Table]] = field(default_factory=dict)
    _bands: dict[tuple[Measure, tuple[Row, ...]], dict[Span, Bands]] = field(default_factory=dict)
    _label_sizes: dict[tuple[tuple[Measure, ...], tuple[Row, ...], int], dict[Span, LabelSizes]] = (
        field(default_factory=dict)
    )

    def use_parts(self, parts: tuple[Part, ...]) -> None:
        """Set the columns in which all tables are read; drop bands read in other columns."""
        if parts != self.parts:
            self.parts = parts
            self._bands.clear()
            self._label_sizes.clear()

    def add(self, tables: Iterable[Table]) -> None:
        """Add published tables; a later edition replaces an earlier one."""
        for table in tables:
            self.tables.setdefault(table.measure, {})[table.span] = table
            for (measure, _), bands in self._bands.items():
                if measure is table.measure:
                    bands.pop(table.span, None)
            for sizes in self._label_sizes.values():
                sizes.pop(table.span, None)

    def forget(self, before: Mapping[SpanKind, int]) -> None:
        """Drop tables of spans that ended before the instant given for their kind of span."""
        by_span: Iterable[dict[Span, Any]] = chain(
            self.tables.values(), self._bands.values(), self._label_sizes.values()
        )
        for kept in by_span:
            for span in [span for span in kept if span.end < before[span.kind]]:
                del kept[span]

    def bands(self, measure: Measure, rows: tuple[Row, ...]) -> Mapping[Span, Bands]:
        """Return the bands of these rows by span, in the columns of :meth:`parts_of` the measure.

        A row that a table lacks is hidden.
        """
        tables = self.tables.get(measure, {})
        bands = self._bands.setdefault((measure, rows), {})
        for span in tables.keys() - bands.keys():
            bands[span] = self.bands_in(span, measure, rows)
        return bands

    def bands_in(self, span: Span, measure: Measure, rows: tuple[Row, ...]) -> Bands:
        """Return the bands of rows in one span that has a table, without caching them."""
        names = [part.name for part in self.parts_of(measure)]
        table = self.tables[measure][span]
        return _aligned_bands(table, rows, PAIR_PARTS if measure is Measure.PAIRS else names)

    def label_sizes(
        self, measures: tuple[Measure, ...], rows: tuple[Row, ...], k: int
    ) -> Mapping[Span, LabelSizes]:
        """Return the sizes of rows in label tables, by span that has all tables of a rate.

        Labelled rates need the decisions of the same spans, so spans without them do not count.
        """
        decisions = self.bands(Measure.DECISIONS, rows)
        labels = {measure: self.bands(measure, rows) for measure in LABEL_MEASURES}
        sizes = self._label_sizes.setdefault((measures, rows, k), {})
        common = set(decisions).intersection(*(labels[measure] for measure in measures))
        for span in common - sizes.keys():
            of_span = {measure: bands[span] for measure, bands in labels.items() if span in bands}
            sizes[span] = self._label_size(decisions[span], of_span, measures, k)
        return sizes

    def _label_size(
        self, decisions: Bands, labels: Mapping[Measure, Bands], measures: Sequence[Measure], k: int
    ) -> LabelSizes:
        """Measure the rows of one span; only ``measures`` count for the size."""
        parts = self.parts_of(Measure.READY)
        reviewed = np.array([part.audit_rate is not None for part in self.parts], bool)
        requested = decisions.low[:, 1:][:, reviewed] * [part.audit_rate or 0.0 for part in parts]
        weights = np.array([_decisions_per_label(part) for part in parts])
        return LabelSizes(
            _row_sizes([labels[measure] for measure in measures], weights),
            _lacks_labels([bands.low[:, 1:] for bands in labels.values()], requested, k),
        )

    def newest(self, measure: Measure, window: str) -> Span | None:
        """Return the newest week with a table of a measure, or four weeks for ``28d``; or None."""
        spans = self.tables.get(measure, {})
        spans_by_kind = ([span for span in spans if span.kind is kind] for kind in _weeks(window))
        return next((max(spans_of_kind) for spans_of_kind in spans_by_kind if spans_of_kind), None)

    def last_closed(self, measure: Measure, window: str) -> Span | None:
        """Return the span with a table of a measure that ended last: a week or, for ``28d``, four.

        Where both ended at once it is the longer one. None without any.
        """
        spans = (span for span in self.tables.get(measure, {}) if span.kind in _weeks(window))
        return max(spans, key=lambda span: (span.end, span.kind), default=None)

    def show(self, slice_name: str) -> bool:
        """Return True if any table of decisions shows the row of a slice, even only its size.

        Label tables do not count: they show counts below k as such, also of hidden rows.
        """
        row = Row(slice_name)
        return any(
            (place := table.layout.place.get(row)) is not None
            and table.bands.detail[place] > Detail.HIDDEN
            for table in self.tables.get(Measure.DECISIONS, {}).values()
        )

    def slices(self, attributes: Sequence[str]) -> tuple[str, ...]:
        """Return the slice texts of a group-by in the newest table of decisions, sorted."""
        tables = self.tables.get(Measure.DECISIONS, {})
        if not tables:
            return ()
        newest = tables[max(tables, key=lambda span: (span.end, -span.kind))]
        return newest.layout.slices_of(tuple(sorted(attributes)))

    def spans_by_score(self, spans: Sequence[Span], metric: Metric) -> tuple[Span, ...]:
        """Return spans with rows by score band: the newest week of a window, else its own spans.

        Weeks and longer spans have rows of score bands; days and hours have none.

        Args:
            spans: spans of the window, at least one.
            metric: metric whose tables a week must have.
        """
        first, last = spans[0], spans[-1]
        if first.kind >= SpanKind.WEEK or last.end - first.start < int(SpanKind.WEEK):
            return tuple(spans)
        weeks = [
            span
            for span in self.tables.get(Measure.DECISIONS, {})
            if span.kind is SpanKind.WEEK
            and first.start < span.end <= last.end
            and all(span in self.tables.get(measure, {}) for measure in _labels_of(metric))
        ]
        return (max(weeks),) if weeks else tuple(spans)

    def parts_of(self, measure: Measure) -> tuple[Part, ...]:
        """Return the columns of a measure; label tables have only parts with requested labels."""
        if measure is Measure.DECISIONS:
            return self.parts
        return tuple(part for part in self.parts if part.audit_rate is not None)


def _aligned_bands(table: Table, rows: Sequence[Row], names: Sequence[str]) -> Bands:
    """Return the table's bands of these rows and columns; 0 to 0 and hidden where it has none."""
    places = table.layout.places_of(rows)
    column_of = {name: 1 + place for place, name in enumerate(table.frame.parts)}
    columns = np.array([0, *(column_of.get(name, -1) for name in names)], np.int64)
    is_present = (places >= 0)[:, None] & (columns >= 0)[None, :]
    detail = np.where(places >= 0, table.bands.detail[places], Detail.HIDDEN).astype(np.int8)
    cells = np.ix_(places, columns)
    return Bands(
        np.where(is_present, table.bands.low[cells], 0),
        np.where(is_present, table.bands.high[cells], 0),
        detail,
    )


@dataclass(frozen=True, slots=True)
class GroupRates:
    """Rates of one group-by's rows, computed from published tables and cached.

    Attributes:
        tables: published tables of the use case.
        rows: rows of the group-by; rows of their references come last.
    """

    tables: UseCaseTables
    rows: tuple[Row, ...]
    _estimates: dict[tuple[tuple[Span, ...], Metric], RateEstimate] = field(default_factory=dict)
    _rates: dict[tuple[tuple[Span, ...], Metric, float], ShownRate] = field(default_factory=dict)
    _sums: dict[tuple[Measure, tuple[Span, ...]], Counted] = field(default_factory=dict)
    _spans: dict[tuple[object, ...], tuple[Span, ...]] = field(default_factory=dict)

    def _bands(self, measure: Measure) -> Mapping[Span, Bands]:
        return self.tables.bands(measure, self.rows)

    def beside(self, rows: Sequence[Row]) -> GroupRates:
        """Return a GroupRates for other rows of the same tables, such as score bands."""
        return GroupRates(self.tables, tuple(rows))

    def has(self, span: Span, metric: Metric) -> bool:
        """Return True if all tables that a rate needs in a span are published."""
        measures = (Measure.DECISIONS, *_labels_of(metric))
        return all(span in self._bands(measure) for measure in measures)

    def has_any(self, spans: Sequence[Span]) -> bool:
        """Return True if the decisions table of any of these spans has any of the rows."""
        tables = self.tables.tables.get(Measure.DECISIONS, {})
        return any((tables[span].layout.places_of(self.rows) >= 0).any() for span in spans)

    def spans(self, window: str, metric: Metric, k: int) -> tuple[Span, ...]:
        """Return the spans of a window for a metric, oldest first; empty before any closes."""
        place = window, _labels_of(metric), k
        if place not in self._spans:  # metrics of the same label tables have the same spans
            self._spans[place] = self._chosen(*place)
        return self._spans[place]

    def _chosen(self, window: str, measures: tuple[Measure, ...], k: int) -> tuple[Span, ...]:
        if not measures:
            return chosen_spans(window, self._bands(Measure.DECISIONS))
        sizes = self.tables.label_sizes(measures, self.rows, k)
        return chosen_spans(
            window,
            {span: size.bands for span, size in sizes.items()},
            {span: size.silent for span, size in sizes.items()},
        )

    def rate(self, spans: Sequence[Span], metric: Metric, z: float = Z95) -> ShownRate:
        """Return the rate of every row over several spans together.

        Args:
            spans: at least one closed span.
            metric: the rate.
            z: normal quantile of its bounds.
        """
        key = tuple(spans), metric
        if (*key, z) not in self._rates:
            if key not in self._estimates:
                self._estimates[key] = self._estimate(spans, metric)
            self._rates[*key, z] = self._estimates[key].at(z)
        return self._rates[*key, z]

    def _estimate(self, spans: Sequence[Span], metric: Metric) -> RateEstimate:
        if metric.labelled:
            return labelled_estimate(self.labelled_counts(spans), metric)
        hits = np.array([part.route is HIT_ROUTES[metric] for part in self.tables.parts], bool)
        return selection_estimate(self._total_over(Measure.DECISIONS, spans), hits)

    def labelled_counts(self, spans: Sequence[Span]) -> LabelledCounts:
        """Return the counts of every row behind labelled rates, summed over several spans."""
        reviewed = [part.audit_rate is not None for part in self.tables.parts]
        served = [part.route is Route.AUTO_SERVE for part in self.tables.parts_of(Measure.READY)]
        return LabelledCounts(
            self._total_over(Measure.DECISIONS, spans).parts(np.array(reviewed, bool)),
            self._total_over(Measure.READY, spans),
            self._total_over(Measure.NOT_READY, spans),
            np.array(served, bool),
        )

    def completeness(self, spans: Sequence[Span]) -> Floats:
        """Return the share of requested labels that each row has, over several spans."""
        return completeness(self.labelled_counts(spans), self._audit_rates)

    def missing(self, spans: Sequence[Span], week: Span) -> MissingLabels:
        """Return the missing labels of each row over several spans, by the shares of a week."""
        return missing_labels(
            self.labelled_counts(spans),
            self._audit_rates,
            self.labelled_counts([week]),
            self._total_over(Measure.UNANSWERED, [week]),
        )

    def worst_case(
        self, spans: Sequence[Span], metric: Metric, missing: Floats
    ) -> list[RateEstimate]:
        """Return a labelled rate of every row as missing labels would lower it, and raise it."""
        counts = self.labelled_counts(spans)
        worst = (with_worst_answers(counts, missing, metric, raises=up) for up in (False, True))
        return [labelled_estimate(answered, metric) for answered in worst]

    @property
    def _audit_rates(self) -> Floats:
        """Return the audit rate of each part that labels are requested for."""
        parts = self.tables.parts_of(Measure.READY)
        return np.array([part.audit_rate for part in parts], np.float64)

    def _total_over(self, measure: Measure, spans: Sequence[Span]) -> Counted:
        key = measure, tuple(spans)
        if key not in self._sums:
            bands, tables = self._bands(measure), self.tables.tables[measure]
            counted = [Counted.from_bands(bands[span], tables[span].effect) for span in spans]
            self._sums[key] = Counted.total(counted)
        return self._sums[key]


def _decisions_per_label(part: Part) -> int:
    return round(1 / part.audit_rate) if part.audit_rate else 1


def _lacks_labels(labels: Sequence[Int64s], requested: Floats, k: int) -> Bools:
    """Return a mask of rows whose requested labels do not come on at least one route.

    Of a route, 2 k - 1 labels or more were requested and neither measure shows one. If the labels
    had come, either those that say ready or the others would be k.

    Args:
        labels: lower ends of the bands of each measure, shape (rows, parts).
        requested: least number of labels requested, shape (rows, parts).
        k: smallest cell that may be shown.
    """
    shows_none = np.sum(labels, axis=0) == 0
    return np.asarray((shows_none & (requested >= 2 * k - 1)).any(axis=1))


def _row_sizes(bands: Sequence[Bands], decisions_per_label: Int64s) -> Bands:
    """Return the bands of each row's size over all label tables, counted in decisions.

    A label counts once for each decision it represents: at audits of 5 %, a band of 0 to 10 labels
    is one of 200 decisions, however many reviews there are.
    """
    low, high = (
        np.sum([ends[:, 1:] @ decisions_per_label for ends in tables_ends], axis=0)[:, None]
        for tables_ends in ([table.low for table in bands], [table.high for table in bands])
    )
    return Bands(low, high, np.min([table.detail for table in bands], axis=0))


@dataclass(frozen=True, slots=True)
class ComparedRates:
    """Rates of one metric for slices and for their references, arrays of shape (slices,).

    Attributes:
        slices: rates of the slices.
        references: rates of the reference of each slice.
    """

    metric: Metric
    slices: ShownRate
    references: ShownRate

    def columns(self) -> tuple[RateColumns, RateColumns]:
        """Return the rates of slices and of references with bounds; NaN if a rate is hidden."""
        slices, references = (
            RateColumns(
                self.metric,
                rate.value,
                rate.lower,
                rate.upper,
                rate.support,
                *(np.zeros(len(rate.value), np.int64) for _ in range(3)),
            )
            for rate in (self.slices, self.references)
        )
        return slices, references


def rows_of(rate: ShownRate, places: Int64s | slice) -> ShownRate:
    """Return the rates of the rows at these places, in this order."""
    columns = (rate.value, rate.lower, rate.upper, rate.support)
    value, lower, upper, support = (column[places] for column in columns)
    evidence, sampled = rate.evidence.rows(places), rate.sampled.rows(places)
    return ShownRate(value, lower, upper, support, rate.shown[places], evidence, sampled)

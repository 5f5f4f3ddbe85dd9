"""The stage of the router at which slices and their references diverge, from published tables.

Weeks and longer spans have rows of score bands, days and hours have none. There only the evidence
gate can be told, and nothing tells the score from the threshold until the week has closed. So the
stages of a window of a week or more are those of its newest week.

Counts are the middles of bands; the error of a band makes a stage less sure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import Route
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.intervals import Floats, divide
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Stage
from monitor.core.publish.calendar_contract import ContractInTables, TableBasis
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.snapshot import GroupTable, ShownStage, SliceRow
from monitor.core.tables.bands import Detail
from monitor.core.tables.counted import Counted
from monitor.core.tables.layout import TOTAL, Row
from monitor.core.tables.reader import Measure
from monitor.core.tables.settings import Part
from monitor.core.tables.spans import Span
from monitor.detection.diagnosis.stages import Passage, diverging_stages

STAGED = (Metric.SELECTION, Metric.TPR)
"""The rates that are the product of the stages: shares of served ones, in all and in the ready."""


def with_stages(table: GroupTable, seen: ContractInTables, basis: TableBasis) -> GroupTable:
    """Return the table with the diverging router stage in each row whose gap is a number.

    Args:
        table: one group-by in the contract's window.
        seen: the contract.
        basis: what the table was computed from.
    """
    assert basis.group is not None, "the total has no reference"  # noqa: S101
    shown: dict[str, dict[Metric, ShownStage]] = {row.slice: {} for row in table.rows}
    for metric, spans in basis.spans:
        slices = [row.slice for row in table.rows if _gap_is_number(row, metric)]
        if metric in STAGED and slices and spans:
            group = _StagedGroup.for_slices(seen, basis.group.reference, slices, spans, metric)
            for text, stage in group.diverging_stages(metric).items():
                shown[text][metric] = stage
    return replace(table, rows=tuple(replace(row, stages=shown[row.slice]) for row in table.rows))


def _gap_is_number(row: SliceRow, metric: Metric) -> bool:
    gap = row.gaps.get(metric)
    return gap is not None and gap.value is not None


@dataclass(frozen=True, slots=True)
class _Cells:
    """Counts and their variances by slice, score band and part, shapes (S, bands, parts)."""

    middle: Floats
    variance: Floats

    def without(self, part: _Cells) -> _Cells:
        """Return the counts without those of ``part``, at least 0; their variances add."""
        return _Cells(np.maximum(self.middle - part.middle, 0), self.variance + part.variance)


@dataclass(frozen=True, slots=True)
class _StagedGroup:
    """Slices of a group-by, and the spans of tables from which their stages are computed.

    Attributes:
        tables: published ones.
        reference: slice text, or ``complement``.
        slices: texts.
        spans: whose counts are added.
        bands: number of score bands, the last is of decisions without a score.
        by_band: whether the spans have rows of score bands.
    """

    tables: UseCaseTables
    reference: str
    slices: Sequence[str]
    spans: tuple[Span, ...]
    bands: int
    by_band: bool

    @classmethod
    def for_slices(
        cls,
        seen: ContractInTables,
        reference: str,
        slices: Sequence[str],
        spans: tuple[Span, ...],
        metric: Metric,
    ) -> _StagedGroup:
        """Return the group over the newest week of the window; if shorter, over its spans."""
        tables, bands = seen.tables, seen.coding.bands
        chosen = tables.spans_by_score(spans, metric)
        layouts = [tables.tables[Measure.DECISIONS][span].layout for span in chosen]
        by_band = all((x.places_of([Row(slices[0], band=0)]) >= 0).all() for x in layouts)
        return cls(tables, reference, slices, chosen, bands, by_band)

    def diverging_stages(self, metric: Metric) -> Mapping[str, ShownStage]:
        """Return, by slice, the router stage at which it diverges; unknown ones are left out.

        With score bands, those of the slice and of its reference must add up; without them, the
        evidence gate is the only stage that is returned.
        """
        slices, references = (self._passage(side, metric) for side in (False, True))
        reference = TOTAL.slice_name if self.reference == COMPLEMENT else self.reference
        divergences = zip(self.slices, diverging_stages(slices, references), strict=True)
        return {
            text: ShownStage(Stage.NONE, None)
            if divergence.stage is Stage.EVIDENCE and not self._gates_differ(text)
            else ShownStage(divergence.stage, divergence.share)
            for text, divergence in divergences
            if (
                self._adds_up(text) and self._adds_up(reference)
                if self.by_band
                else divergence.stage is not Stage.UNKNOWN
            )
        }

    def _gates_differ(self, slice_name: str) -> bool:
        """Return True if bands prove that the gate stops other shares of slice and reference.

        The middles of bands do not: of a small row a band from 0 to 10 is a large share.
        """
        complement = Row(slice_name, complement=True)
        rows = Row(slice_name), complement if self.reference == COMPLEMENT else Row(self.reference)
        counted = Counted.total(
            [self._counted(Measure.DECISIONS, rows, span) for span in self.spans]
        )
        stopped = np.array([part.audit_rate is None for part in self.tables.parts])
        least = divide(counted.low[stopped].sum(axis=0), counted.high.sum(axis=0))
        most = divide(counted.high[stopped].sum(axis=0), counted.low.sum(axis=0))
        return bool(least.max() > most.min())

    def _adds_up(self, slice_name: str) -> bool:
        """Return True if the score bands of a slice add up to its decisions: none is withheld."""
        rows = tuple(Row(slice_name, band=band) for band in range(self.bands))
        whole, bands = (
            Counted.total([self._counted(Measure.DECISIONS, names, span) for span in self.spans])
            for names in ((Row(slice_name),), rows)
        )
        return bool(bands.high.sum() >= whole.low.sum())

    def _passage(self, of_references: bool, metric: Metric) -> Passage:
        def side(measure: Measure) -> _Cells:
            return self._reference(measure) if of_references else self._cells(measure, self.slices)

        decisions, parts = side(Measure.DECISIONS), self.tables.parts_of(Measure.DECISIONS)
        if metric is Metric.SELECTION:
            return _passage_of_decisions(decisions, parts)
        reviewed = np.array([part.audit_rate is not None for part in parts], bool)
        decided = _Cells(decisions.middle[..., reviewed], decisions.variance[..., reviewed])
        ready, not_ready = side(Measure.READY), side(Measure.NOT_READY)
        return _passage_of_ready(decided, ready, not_ready, self.tables.parts_of(Measure.READY))

    def _reference(self, measure: Measure) -> _Cells:
        if self.reference != COMPLEMENT:
            return self._cells(measure, [self.reference] * len(self.slices))
        total = self._cells(measure, [TOTAL.slice_name] * len(self.slices))
        return total.without(self._cells(measure, self.slices))

    def _cells(self, measure: Measure, slices: Sequence[str]) -> _Cells:
        bands: Sequence[int | None] = [*range(self.bands)] if self.by_band else [None]
        rows = tuple(dict.fromkeys(Row(text, band=band) for text in slices for band in bands))
        place = {row: i for i, row in enumerate(rows)}
        counted = Counted.total([self._counted(measure, rows, span) for span in self.spans])
        shape = (len(slices), len(bands), -1)
        places = [place[Row(text, band=band)] for text in slices for band in bands]
        middle, variance = (
            column.T[places].reshape(shape) for column in (counted.middle, counted.variance)
        )
        if self.by_band:
            return _Cells(middle, variance)
        unscored = ((0, 0), (self.bands - 1, 0), (0, 0))
        return _Cells(np.pad(middle, unscored), np.pad(variance, unscored))

    def _counted(self, measure: Measure, rows: tuple[Row, ...], span: Span) -> Counted:
        """Return the counts of rows in one span; a row that hides its labels counts as 0."""
        bands = self.tables.bands_in(span, measure, rows)
        counted = Counted.from_bands(bands)
        if measure is Measure.DECISIONS:
            return counted
        hidden = bands.detail == Detail.HIDDEN
        low, high, variance = (
            np.where(hidden, 0, column) for column in (counted.low, counted.high, counted.variance)
        )
        return replace(counted, low=low, high=high, variance=variance)


def _passage_of_decisions(decisions: _Cells, parts: Sequence[Part]) -> Passage:
    """Return the Passage of all decisions; those without evidence do not pass the gate."""
    passed = [
        [part.route is route and part.audit_rate is not None for part in parts]
        for route in REVIEWED_ROUTES
    ]
    through, variance = (
        np.stack([column[..., np.array(mask, bool)].sum(axis=-1) for mask in passed], axis=1)
        for column in (decisions.middle, decisions.variance)
    )
    stopped = [
        decisions.middle[..., [p.route is route and p.audit_rate is None for p in parts]]
        for route in Route
    ]
    sums = np.stack([column.sum(axis=(-2, -1)) for column in stopped], axis=1)
    return Passage(through, sums, 1 + divide(variance, through, empty=0))


def _passage_of_ready(
    decisions: _Cells, ready: _Cells, not_ready: _Cells, parts: Sequence[Part]
) -> Passage:
    """Return the Passage of the ready decisions, estimated from labels."""

    def by_route(column: Floats) -> Floats:
        """Reshape (S, bands, parts) to (S, routes, rates, bands); rates of another route are 0."""
        masks = [np.array([p.route is route for p in parts], bool) for route in REVIEWED_ROUTES]
        return np.stack([np.swapaxes(column * mask, 1, 2) for mask in masks], axis=1)

    labelled = by_route(ready.middle + not_ready.middle)
    decided = np.maximum(by_route(decisions.middle), labelled)
    passage = Passage.of_ready(decided, labelled, by_route(ready.middle))
    weight = divide(decided, labelled, empty=0)
    share = divide(by_route(ready.middle), labelled, empty=0)
    of_bands = (weight**2 * by_route(ready.variance) + share**2 * by_route(decisions.variance)).sum(
        axis=-2
    )
    widened = passage.dispersion + divide(of_bands, passage.through, empty=0)
    return replace(passage, dispersion=widened)

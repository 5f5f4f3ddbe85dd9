"""From released blocks to a Snapshot: only what has changed is computed again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import numpy as np

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import COUNTERS, Counts, Int64s
from monitor.core.counts.coding import CodingHistory
from monitor.core.counts.rollup import CellIndex, production_totals
from monitor.core.privacy.families import SliceFamily
from monitor.core.privacy.pooling import MergeMap
from monitor.core.privacy.release_blocks import (
    Span,
    newest_span,
    on_the_hour,
    span_ending_in,
    without,
)
from monitor.core.publish.contract_tables import BlockCounts, Builder, KeptLabels, Pooled
from monitor.core.publish.each_row import with_known_rows
from monitor.core.publish.snapshot import ContractTable, GroupTable, Period, Snapshot, WindowTable
from monitor.core.publish.states import GroupFindings, with_age, with_missing_labels
from monitor.core.time import DAY, HOUR, WINDOWS, Grain, WindowKind
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.blocks.losses import LostSpans
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.windows import Sums
from monitor.evaluate.incidents.incidents import Incidents
from monitor.evaluate.label_needs import with_label_needs
from monitor.evaluate.publish.annotate import with_diagnosis, with_version_changes
from monitor.evaluate.publish.label_faults import LabelFaults
from monitor.evaluate.publish.published_findings import PublishedFindings
from monitor.evaluate.publish.request_faults import RequestFaults
from monitor.store.evaluator.release_blocks import ClosedPanes

_Table = TypeVar("_Table", GroupTable, WindowTable)
_Place = tuple[str, str, str]
_Labels = tuple[tuple[Span, ...], int, MergeMap | None]
Contracts = Sequence[tuple[Contract, Sequence[WindowKind]]]


@dataclass(frozen=True, slots=True)
class TableInputs:
    """Blocks that one table is made of, and findings of the tests; equal ones: equal tables.

    ``rest``: whether the rest of a closed week is in it besides.
    """

    decided: Period | None
    decided_in: tuple[Span, ...]
    labelled: Period | None
    labelled_in: tuple[Span, ...]
    pooling: str | None
    revision: int
    findings: GroupFindings | None = None
    rest: bool = False


@dataclass(slots=True)
class Publisher:
    """Makes the Snapshot, and keeps the tables of the last one.

    Attributes:
        contracts: with the windows of each.
        eras: how decisions were coded, by event time.
        found: findings of the sequential tests.
        requests: findings of the checks of label requests.
        labels: findings of the checks of the labels of slices.
        incidents: the open ones.
        lost: spans of events that were lost before they could be read.
        excluded: event time whose data are known to be bad.
        revision: changes whenever closed panes do.
        labelled: every counter of production traffic in the longest labelled window.
        tables: those of the last Snapshot, by contract, group-by and window; the total's without
            its groups.
        kept: what rests on labels of them, with the blocks, the revision and the pooling that it
            was made of.
    """

    contracts: Contracts
    eras: CodingHistory
    found: PublishedFindings
    requests: RequestFaults
    labels: LabelFaults
    incidents: Incidents
    lost: LostSpans = field(default_factory=LostSpans)
    excluded: tuple[Span, ...] = ()
    revision: int = 0
    labelled: Int64s = field(default_factory=lambda: np.zeros(COUNTERS, np.int64))
    tables: dict[_Place, tuple[TableInputs, GroupTable | WindowTable]] = field(default_factory=dict)
    kept: dict[_Place, tuple[_Labels, KeptLabels]] = field(default_factory=dict)
    # Apart: labels of hours that are closed to decisions may still come.
    _decided: Sums = field(default_factory=Sums)
    _labelled: Sums = field(default_factory=Sums)

    def revise(self) -> None:
        """Closed panes have changed: every sum is to be made anew."""
        self.revision += 1
        self._decided.forget()
        self._labelled.forget()

    def snapshot(self, closed: ClosedPanes, release: ReleaseBlocks, index: CellIndex) -> Snapshot:
        """Make the Snapshot that is published now."""
        tables = [
            self._contract(closed, release, index, contract, kinds)
            for contract, kinds in self.contracts
        ]
        self._decided.drop_unused()
        self._labelled.drop_unused()
        return Snapshot(release.decisions, release.labels, tuple(tables))

    def _contract(
        self,
        closed: ClosedPanes,
        release: ReleaseBlocks,
        index: CellIndex,
        contract: Contract,
        kinds: Sequence[WindowKind],
    ) -> ContractTable:
        builder = Builder(contract, self.eras.newest, self.eras.listed_since)
        maker = _ContractMaker(self, closed, index, builder)
        windows = []
        for kind in kinds if release.decisions is not None else ():
            groups = [maker.group(release, kind, group) for group in contract.group_bys]
            windows.append(maker.window(release, kind, groups))
        table = builder.table(windows)
        total = release.families[SliceFamily(contract.name).name]
        table = replace(
            table,
            requests_at_fault=self.requests.of(table, total),
            labels_at_fault=self.labels.of(table, total),
        )
        table = with_missing_labels(table)
        return replace(table, incidents=self.incidents.shown(table, contract))

    def shown(self, state: FamilyState, kind: WindowKind, release: ReleaseBlocks) -> TableInputs:
        """The newest blocks that cover a window."""
        edges = state.shown_edges(labels=False)
        hours = on_the_hour(edges)
        fine = kind.grain is Grain.MINUTES5
        decided = newest_span(edges if fine else hours, kind.length)
        if fine and decided and decided.start < (release.decisions or 0) - DAY:
            decided = newest_span(hours, kind.length)  # 5-minute panes are gone by then
        labelled = newest_span(state.shown_edges(labels=True), kind.length)
        return self._inputs(state, decided, labelled if kind.labelled else None)

    def ending_in(self, state: FamilyState, start: int, end: int) -> TableInputs:
        """The blocks that end after one instant and not after another, on the hour."""
        decided, labelled = (
            span_ending_in(on_the_hour(state.shown_edges(labels=labels)), start, end)
            for labels in (False, True)
        )
        return self._inputs(state, decided, labelled)

    def _inputs(
        self, state: FamilyState, decided: Span | None, labelled: Span | None
    ) -> TableInputs:
        """What a table of these runs of blocks is made of, without those that are left out."""
        edges = state.shown_edges(labels=False)
        edges = on_the_hour(edges) if decided is None or _on_the_hour(decided) else edges
        out = (*self.excluded, *state.abandoned_spans(labels=False))
        decided_in = without(decided, edges, out) if decided else ()
        edges = state.shown_edges(labels=True)
        out = (*self.excluded, *state.abandoned_spans(labels=True))
        labelled_in = without(labelled, edges, out) if labelled else ()
        stored = state.stored()
        return TableInputs(
            decided=self._period(decided, decided_in, labels=False),
            decided_in=decided_in,
            labelled=self._period(labelled, labelled_in, labels=True),
            labelled_in=labelled_in,
            pooling=stored.body if stored else None,
            revision=self.revision,
        )

    def _period(self, span: Span | None, spans: tuple[Span, ...], *, labels: bool) -> Period | None:
        if span is None:
            return None
        bad = any(out.start < span.end and span.start < out.end for out in self.excluded)
        if spans:
            span = Span(spans[0].start, spans[-1].end)
        lost = self.lost.touch_labelled if labels else self.lost.touch_decisions
        excluded = bad or len(spans) != 1
        return Period(span.start, span.end, lost(span.start, span.end), excluded)

    def counts(
        self, closed: ClosedPanes, index: CellIndex, kind: WindowKind, shown: TableInputs
    ) -> BlockCounts:
        """Counts in the blocks of one table."""
        whole_hours = all(map(_on_the_hour, shown.decided_in))
        grain = Grain.HOUR if whole_hours else Grain.MINUTES5
        labelled = Counts.empty()
        if shown.labelled_in:
            labelled = self._labelled.of(closed, Grain.HOUR, shown.labelled_in)
        return BlockCounts(
            has_labels=kind.labelled,
            decided=shown.decided,
            labelled_in=shown.labelled,
            decisions=self._decided.of(closed, grain, shown.decided_in),
            labelled=labelled,
            index=index,
        )

    def decisions(self, closed: ClosedPanes, spans: tuple[Span, ...]) -> Counts:
        """Counts of decisions in whole hours."""
        return self._decided.of(closed, Grain.HOUR, spans)


@dataclass(frozen=True, slots=True)
class _ContractMaker:
    """Makes the tables of one contract, or takes those that are still right."""

    publisher: Publisher
    closed: ClosedPanes
    index: CellIndex
    builder: Builder

    def group(self, release: ReleaseBlocks, kind: WindowKind, group: GroupBy) -> GroupTable:
        contract = self.builder.contract
        state, shown, counts = self._counted(release, kind, group.attributes)
        decides = kind.name == contract.window
        place = contract.name, group.name
        if decides:
            shown = replace(shown, findings=self.publisher.found.of(contract, group, state))

        def make() -> GroupTable:
            pooled = self.builder.pooled(group, counts, state.pooling, state.label_pooling)
            labels = self._labels((*place, kind.name), shown, pooled.pooling)
            table = self.builder.group(pooled, state.left_out_share, shown.findings, labels=labels)
            if not decides:
                return table
            table = with_diagnosis(pooled, table, self.builder.coding, contract.k)

            def sides(at: int) -> tuple[Pooled, Pooled] | None:
                return self._around(group, state, counts, at, kind.length)

            table = with_version_changes(table, sides, self.builder.coding, contract.k)
            return with_label_needs(contract, group, table)

        table = self._kept(place, kind, shown, make)
        if old := self.builder.old(table, release.decisions or 0):
            table = replace(table, rows=tuple(with_age(row, old) for row in table.rows))
        if decides:
            self.publisher.found.told(contract.name, table)
        return table

    def _around(
        self, group: GroupBy, state: FamilyState, counts: BlockCounts, at: int, length: int
    ) -> tuple[Pooled, Pooled] | None:
        """A group-by in the released blocks before and after a change, which is never inside.

        As many as a window has on each side, wherever the window is by now: a change stays known
        after the window has passed it.

        Args:
            group: which.
            state: of its family.
            counts: in the window.
            at: end of the block of labels that the change is reported with; it began within it.
            length: of the window.
        """
        labelled = state.shown_edges(labels=True)
        if (block := bisect_left(labelled, at)) == 0:
            return None
        begin, decided = labelled[block - 1], on_the_hour(state.shown_edges(labels=False))
        first, last = bisect_right(decided, begin) - 1, bisect_left(decided, begin)
        if first < 0 or last == len(decided):
            return None
        before = self.publisher.ending_in(state, decided[first] - length, decided[first])
        after = self.publisher.ending_in(state, decided[last], max(at, decided[last] + length))
        if not before.decided_in or not after.decided_in:
            return None
        older, newer = (self._pooled_in(group, state, counts, one) for one in (before, after))
        return older, newer

    def _pooled_in(
        self, group: GroupBy, state: FamilyState, counts: BlockCounts, shown: TableInputs
    ) -> Pooled:
        """A group-by in some blocks, by the values that were listed when they began."""
        part = replace(
            counts,
            has_labels=False,
            decided=shown.decided,
            decisions=self.publisher.decisions(self.closed, shown.decided_in),
            labelled_in=None,
            labelled=Counts.empty(),
        )
        return self.builder.pooled(group, part, state.pooling, state.label_pooling)

    def window(
        self, release: ReleaseBlocks, kind: WindowKind, groups: Sequence[GroupTable]
    ) -> WindowTable:
        _, shown, counts = self._counted(release, kind, ())
        if kind.labelled:
            self.publisher.labelled = production_totals(counts.labelled, self.index)

        place = self.builder.contract.name, ""

        def make() -> WindowTable:
            labels = self._labels((*place, kind.name), shown)
            return self.builder.window(kind.name, counts, (), labels)

        table = self._kept(place, kind, shown, make)
        return replace(table, window=kind.name, groups=tuple(groups))

    def _counted(
        self, release: ReleaseBlocks, kind: WindowKind, attributes: tuple[str, ...]
    ) -> tuple[FamilyState, TableInputs, BlockCounts]:
        state = release.families[SliceFamily(self.builder.contract.name, attributes).name]
        shown = self.publisher.shown(state, kind, release)
        return state, shown, self.publisher.counts(self.closed, self.index, kind, shown)

    def _kept(
        self,
        place: tuple[str, str],
        kind: WindowKind,
        shown: TableInputs,
        make: Callable[[], _Table],
    ) -> _Table:
        """The table of the same blocks that the last Snapshot had, or this one has already."""
        tables = self.publisher.tables
        known = tables.get((*place, kind.name))
        if known is not None and known[0] == shown:
            return cast(_Table, known[1])
        twins = (tables.get((*place, name)) for name in self._alike(kind))
        twin = next((one for one in twins if one is not None and one[0] == shown), None)
        table = make() if twin is None else cast(_Table, twin[1])
        if known is not None:
            table = with_known_rows(table, cast(_Table, known[1]))
        tables[*place, kind.name] = (shown, table)
        return table

    def _labels(
        self, place: _Place, shown: TableInputs, pooling: MergeMap | None = None
    ) -> KeptLabels:
        """What the last table there had of its labels; nothing once they are others."""
        of = (shown.labelled_in, shown.revision, pooling)
        known = self.publisher.kept.get(place)
        if known is None or known[0] != of:
            known = self.publisher.kept[place] = of, KeptLabels()
        return known[1]

    def _alike(self, kind: WindowKind) -> list[str]:
        """Other windows whose tables are the same, of the same blocks: while a store is young."""
        decides = self.builder.contract.window
        return [
            one.name
            for one in WINDOWS.values()
            if one.labelled == kind.labelled and decides not in {one.name, kind.name}
        ]


def _on_the_hour(span: Span) -> bool:
    return span.start % HOUR == 0 and span.end % HOUR == 0

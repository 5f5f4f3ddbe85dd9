"""From the counts of release blocks to the published tables of one contract.

The way of every number: cells of the use case -> roll-up to slices -> pooling -> guards ->
rates, gaps and verdicts -> what may be shown. There is no other way into a Snapshot.

An attribute or value that came to be listed while the store went on has no data before: its rows
are shown in windows that begin then or later. In a window that begins earlier

- a late **value** is pooled into ``__other__``, as it was coded until then, and its own row is
  hidden: rows still add up to the total, and no subtraction inside the window finds it;
- a group-by of a late **attribute** is hidden as a whole, and with it every intersection that
  contains it;
- a use case that is defined by a late value is hidden as a whole.

Longer windows begin earlier, so their rows are unions of the rows of shorter ones: what is shown
of them is never finer than without this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from monitor.core.contract import USUAL_METRICS, Contract, GroupBy, Limits, Metric
from monitor.core.counts.cells import Counts, Int64s, parse_atom
from monitor.core.counts.coding import Coding, Listed
from monitor.core.counts.rollup import (
    CellIndex,
    SliceCounts,
    among,
    cells_within,
    roll_up,
    roll_up_versions,
)
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import opened
from monitor.core.privacy.pooling import MergeMap, aligned, combinations_of, merge_map
from monitor.core.publish.rows import LabelledRows, Policy, Rolled, build_rows
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    LimitKind,
    OwnLimit,
    Period,
    SliceRow,
    WindowTable,
)
from monitor.core.publish.states import GroupFindings, hidden, with_findings

_TOTAL = ("",)

Dates = Mapping[Listed, int]
"""Since when names and values are listed; what is absent always was."""


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """Counts of the release blocks that one table shows.

    Attributes:
        has_labels: whether the window has labelled rates at all.
        decided: the period of ``decisions``; None before the first block.
        labelled_in: the period of ``labelled``; None before the first block.
        decisions: counts by cell.
        labelled: counts by cell; ignored in windows without labels.
        index: what every cell id of both means.
    """

    has_labels: bool
    decided: Period | None
    labelled_in: Period | None
    decisions: Counts
    labelled: Counts
    index: CellIndex

    @property
    def begins(self) -> int | None:
        """The first instant of anything in it; None where there is nothing."""
        return min((p.start for p in (self.decided, self.labelled_in) if p), default=None)


@dataclass(slots=True)
class KeptLabels:
    """What the last table of the same labels has of them; whoever keeps it knows that they are."""

    rows: LabelledRows | None = None


@dataclass(frozen=True, slots=True)
class Pooled:
    """One group-by in one window, pooled: what its table is made of, and whatever explains it.

    Attributes:
        group: which.
        counts: of the use case alone.
        pooling: which values keep their name; late ones keep none.
        label_pooling: which of them do for labels.
        rolled: the counts by row.
    """

    group: GroupBy
    counts: BlockCounts
    pooling: MergeMap
    label_pooling: MergeMap
    rolled: Rolled

    def by_version(self) -> Int64s:
        """Production decisions by row and version, shape (S, V): all versions that decided."""
        return self.versions()[1]

    def versions(self) -> tuple[Int64s, Int64s]:
        """Ids of all versions that decided, and the production decisions by row and version."""
        counts, rows = self.counts, self.rolled.decisions.slices
        slices, versions, decided = roll_up_versions(
            counts.decisions, counts.index, self.group.attributes
        )
        position = {text: row for row, text in enumerate(rows)}
        table = np.zeros((len(rows), decided.shape[1]), np.int64)
        np.add.at(table, [position[self.pooling.name(text)] for text in slices], decided)
        return versions, table


@dataclass(slots=True)
class _Scoped:
    """Counts of a use case alone, made once for all tables of the same counts.

    The tables of a window mostly are of the same blocks, hence of one and the same object.
    """

    _inside: tuple[CellIndex, Int64s] | None = None
    # The counts are kept beside what is made of them: no other object can have their id.
    _known: dict[int, tuple[Counts, Counts]] = field(default_factory=dict)

    def of(self, counts: Counts, index: CellIndex, where: Collection[tuple[str, str]]) -> Counts:
        """Those of the cells that have all of these attribute values."""
        if self._inside is None or self._inside[0] is not index:
            self._inside, self._known = (index, cells_within(index, where)), {}
        if id(counts) not in self._known:
            self._known[id(counts)] = counts, among(counts, self._inside[1])
        return self._known[id(counts)][1]


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes the tables of one contract.

    Attributes:
        contract: the comparisons and the limits.
        coding: of now.
        listed_since: names and values that came to be listed while the store went on.
        of_week: whether they are of a closed week, which has the agreement of reviewers, too.
    """

    contract: Contract
    coding: Coding
    listed_since: Dates = field(default_factory=dict)
    of_week: bool = False
    _scoped: _Scoped = field(default_factory=_Scoped, init=False, repr=False, compare=False)

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

    def window(
        self,
        name: str,
        total: BlockCounts,
        groups: Sequence[GroupTable],
        labels: KeptLabels | None = None,
    ) -> WindowTable:
        """One window: its total, and its group-bys as :meth:`group` made them.

        Args:
            name: of the window.
            total: counts of all its cells.
            groups: its group-bys.
            labels: what was made of the same labels.

        Raises:
            ValueError: if a stratum has an audit rate that the coding does not know.
        """
        late = self._late(total)
        hidden_until = _no_data_before(late, self.contract.where)
        rolled = self._rolled(self.scoped(total), (), None)
        guard = opened(rolled.decisions, rolled.labelled, self.contract.k)
        guard = guard.unless(hidden_until is not None)
        decides = self.of_week or name == self.contract.window
        labels = labels or KeptLabels()
        built = build_rows(self._policy, rolled, guard, decides=decides, before=labels.rows)
        labels.rows = built.labelled
        (row,) = built.rows
        return WindowTable(
            window=name,
            total=row,
            groups=tuple(groups),
            no_data_before=hidden_until,
            decisions=total.decided,
            labelled=total.labelled_in,
        )

    def pooled(
        self,
        group: GroupBy,
        counts: BlockCounts,
        pooling: MergeMap | None,
        label_pooling: MergeMap | None = None,
    ) -> Pooled:
        """One group-by in one window.

        Args:
            group: which.
            counts: of all its cells.
            pooling: its merge map; without one nothing above k = 1 keeps its name.
            label_pooling: that of its labels, where it is another one.
        """
        scoped, late = self.scoped(counts), self._late(counts)
        pooling = pooling or self._no_map(group, scoped)
        labels = (label_pooling or pooling).without(late)
        pooling = pooling.without(late)
        rolled = self._rolled(scoped, group.attributes, pooling)
        return Pooled(group, scoped, pooling, labels, rolled)

    def group(
        self,
        pooled: Pooled,
        left_out: float | None = None,
        findings: GroupFindings | None = None,
        *,
        compared: int | None = None,
        labels: KeptLabels | None = None,
    ) -> GroupTable:
        """The table of one group-by in one window.

        Args:
            pooled: what :meth:`pooled` made.
            left_out: at most this share of decisions is in no table.
            findings: of the sequential tests; None where the window does not decide.
            compared: comparisons whose bounds hold together, where the table is a part of another;
                None where it is its own.
            labels: what was made of the same labels.

        Raises:
            ValueError: if a stratum has an audit rate that the coding does not know.
        """
        group, counts, rolled = pooled.group, pooled.counts, pooled.rolled
        late = self._late(counts)
        guard = opened(
            rolled.decisions,
            rolled.labelled,
            self.contract.k,
            pooled.label_pooling.joined(rolled.decisions.slices),
        )
        names = ((name, None) in late for name in group.attributes)
        closed = any(names) or _no_data_before(late, self.contract.where) is not None
        guard, decides = guard.unless(closed), self.of_week or findings is not None
        policy = self._policy
        if contract_limits := _own(self.contract, group, rolled.decisions.slices):
            policy = replace(policy, own=contract_limits)
        labels = labels or KeptLabels()
        rows, spreads, labels.rows = build_rows(
            policy,
            rolled,
            guard,
            group.reference,
            decides=decides,
            compared=compared,
            before=labels.rows,
        )
        if findings is not None:
            rows = tuple(with_findings(row, findings, pooled.pooling) for row in rows)
        rows += self._pooled_away(group, rolled, rows)
        listed = rows if late else ()
        since = {row.slice: _no_data_before(late, parse_atom(row.slice).items()) for row in listed}
        return GroupTable(
            group.name,
            tuple(sorted(rows, key=lambda row: row.slice)),
            spreads,
            {text: at for text, at in since.items() if at is not None},
            counts.decided,
            counts.labelled_in,
            left_out,
        )

    def old(self, table: WindowTable | GroupTable, now: int) -> frozenset[Metric]:
        """The metrics of a table whose period ended longer than ``max_age`` before ``now``."""
        max_age = self.contract.max_age
        ends = {True: table.labelled, False: table.decisions}
        return frozenset(
            metric
            for metric in Metric
            if max_age is not None
            and (period := ends[metric.labelled]) is not None
            and now - period.end > max_age
        )

    def _rolled(
        self, counts: BlockCounts, attributes: Sequence[str], pooling: MergeMap | None
    ) -> Rolled:
        """Roll up and pool one group-by; both halves get the same rows."""
        decisions = _rows(counts.decisions, counts.index, attributes, pooling)
        listed = self.contract.metrics
        if not counts.has_labels:
            return Rolled(decisions, None, listed=listed)
        labelled = _rows(counts.labelled, counts.index, attributes, pooling)
        slices = tuple(sorted({*decisions.slices, *labelled.slices}))
        return Rolled(aligned(decisions, slices), aligned(labelled, slices), listed=listed)

    def _no_map(self, group: GroupBy, counts: BlockCounts) -> MergeMap:
        """All values where nothing is hidden, else none."""
        if self.contract.k == 1:
            rolled = roll_up(counts.decisions, counts.index, group.attributes)
            return merge_map(rolled, group.attributes, 1)
        return MergeMap(dict.fromkeys(group.attributes, ()))

    @property
    def _policy(self) -> Policy:
        contract = self.contract
        exact = contract.synthetic and contract.k == 1
        return Policy(contract.limits, self.coding, Precision(contract.k, exact))

    def _late(self, counts: BlockCounts) -> Dates:
        """Names and values that were not listed when the window began."""
        begins = counts.begins
        if begins is None:
            return {}
        return {pair: at for pair, at in self.listed_since.items() if at > begins}

    def scoped(self, counts: BlockCounts) -> BlockCounts:
        """Only the cells whose atoms belong to the use case."""
        if not self.contract.where:
            return counts
        of, where, index = self._scoped.of, self.contract.where, counts.index
        return replace(
            counts,
            decisions=of(counts.decisions, index, where),
            labelled=of(counts.labelled, index, where),
        )

    def _pooled_away(
        self, group: GroupBy, rolled: Rolled, rows: Sequence[SliceRow]
    ) -> tuple[SliceRow, ...]:
        """Declared slices without a row of their own: hidden, like any other small one."""
        values = {a.name: a.values for a in self.coding.attributes}
        listed = tuple(tuple(values.get(name, ())) for name in group.attributes)
        declared = combinations_of(tuple(group.attributes), listed)
        there = {row.slice for row in rows}
        missing = [text for text in declared if text not in there]
        return tuple(SliceRow(text, hidden(rolled.metrics)) for text in missing)


def own_limits(contract: Contract) -> Iterator[OwnLimit]:
    """The limits of group-bys and slices as they are published, in the order of the contract."""
    for own in contract.own_limits:
        limits = own.alone(contract.limits)
        for metric in Metric:
            for kind, find in _KINDS.items():
                if (value := find(limits, metric)) is not None:
                    yield OwnLimit(own.group_by, own.slice, metric, kind, float(value))


_KINDS: Mapping[LimitKind, Callable[[Limits, Metric], Fraction | None]] = {
    LimitKind.MAX_GAP: Limits.max_gap,
    LimitKind.MIN_RATIO: Limits.min_ratio,
    LimitKind.MIN_LEVEL: Limits.min_level,
    LimitKind.MAX_LEVEL: Limits.max_level,
}


def _own(contract: Contract, group: GroupBy, slices: Sequence[str]) -> dict[str, Limits]:
    """Limits of the slices of a group-by that are not the contract's."""
    if not any(own.group_by == group.name for own in contract.own_limits):
        return {}
    return {text: contract.limits_of(group.name, text) for text in slices}


def _numbers(limits: Mapping[Metric, Fraction | None]) -> dict[Metric, float]:
    """The contract's numbers as they are published; what is not limited is absent."""
    return {metric: float(x) for metric, x in limits.items() if x is not None}


def _no_data_before(late: Dates, pairs: Iterable[tuple[str, str]]) -> int | None:
    """The instant from which all of these attribute values are listed, if any is late."""
    keys = [key for name, value in pairs for key in ((name, None), (name, value))]
    return max((late[key] for key in keys if key in late), default=None)


def _rows(
    counts: Counts, index: CellIndex, attributes: Sequence[str], pooling: MergeMap | None
) -> SliceCounts:
    rolled = roll_up(counts, index, attributes)
    return pooling.apply(rolled) if pooling else aligned(rolled, _TOTAL)

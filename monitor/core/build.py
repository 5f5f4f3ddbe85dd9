"""From the counts of the windows to the published table of one contract.

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from types import MappingProxyType

import numpy as np

from monitor.core.atoms import atom_text, parse_atom
from monitor.core.bands import Precision
from monitor.core.cells import Counts, Int64s
from monitor.core.coding import Coding, Listed
from monitor.core.compared import Policy, Rolled
from monitor.core.contract import Contract, GroupBy, Metric
from monitor.core.guards import Opened, opened
from monitor.core.pooling import MergeMap, aligned, merge_map
from monitor.core.rollup import CellIndex, SliceCounts, roll_up
from monitor.core.rows import build_rows
from monitor.core.snapshot import ContractTable, GroupTable, SliceRow, WindowTable
from monitor.core.states import hidden
from monitor.core.time import WindowKind

_TOTAL = ("",)


@dataclass(frozen=True, slots=True)
class WindowCounts:
    """What was counted in one window.

    Attributes:
        kind: which window.
        start: first instant (microseconds) of ``decisions``.
        end: the instant they run to, exclusive; at most the watermark.
        labelled_start: the same for ``labelled``; None before there is a label frontier.
        labelled_end: at most the label frontier.
        decisions: counts by cell of the panes up to the watermark.
        labelled: counts by cell of the panes up to the label frontier; not looked at in
            windows without labels.
        index: what every cell id of both means.
        data_lost: events of the window were lost before they could be read, or may have been.
    """

    kind: WindowKind
    start: int
    end: int
    labelled_start: int | None
    labelled_end: int | None
    decisions: Counts
    labelled: Counts
    index: CellIndex
    data_lost: bool = False

    @property
    def begins(self) -> int:
        """The first instant of anything in it."""
        return self.start if self.labelled_start is None else min(self.start, self.labelled_start)


Dates = Mapping[Listed, int]
"""Since when names and values are listed; what is absent always was."""


def build_contract(
    contract: Contract,
    coding: Coding,
    windows: Sequence[WindowCounts],
    listed_since: Dates = MappingProxyType({}),
) -> ContractTable:
    """The table of one contract: every window, total and group-bys, guarded.

    Merge maps come from the longest window (it contains the others) and are used in all.

    Args:
        contract: the comparisons and the limits.
        coding: of now.
        windows: what was counted.
        listed_since: names and values that came to be listed while the store went on.

    Raises:
        ValueError: if a stratum has an audit rate that the coding does not know.
    """
    exact = contract.synthetic and contract.k == 1
    limits = contract.limits
    policy = Policy(limits, coding, Precision(contract.k, exact))
    scoped = [_scoped(window, contract.where) for window in windows]
    maps = _merge_maps(contract, scoped)
    return ContractTable(
        contract=contract.name,
        version=contract.version,
        owner=contract.owner,
        synthetic=contract.synthetic,
        k=contract.k,
        window=contract.window,
        max_gaps=_numbers({metric: limits.max_gap(metric) for metric in Metric}),
        min_levels=_numbers({Metric.TPR: limits.min_tpr}),
        max_levels=_numbers({Metric.FPR: limits.max_fpr}),
        min_supports={metric: limits.min_support(metric) for metric in Metric},
        windows=tuple(
            _window_table(contract, policy, maps, window, _late(listed_since, window))
            for window in scoped
        ),
    )


def _numbers(limits: Mapping[Metric, Fraction | None]) -> dict[Metric, float]:
    """The contract's numbers as they are published; what is not limited is absent."""
    return {metric: float(x) for metric, x in limits.items() if x is not None}


def _scoped(window: WindowCounts, where: Sequence[tuple[str, str]]) -> WindowCounts:
    """Only the cells whose atoms belong to the use case."""
    if not where:
        return window
    wanted = set(where)
    atoms = [a for a, text in window.index.atom_texts.items() if wanted <= parse_atom(text).items()]
    inside = window.index.cells[np.isin(window.index.atoms, np.array(atoms, np.int64))]
    return replace(
        window,
        decisions=_among(window.decisions, inside),
        labelled=_among(window.labelled, inside),
    )


def _among(counts: Counts, cells: Int64s) -> Counts:
    rows = np.isin(counts.keys, cells)
    return Counts(counts.keys[rows], counts.values[rows])


def _merge_maps(contract: Contract, windows: Sequence[WindowCounts]) -> dict[str, MergeMap]:
    """One merge map per group-by; none without windows."""
    if not windows:
        return {}
    longest = max(windows, key=lambda window: window.kind.length)
    return {
        group.name: merge_map(
            roll_up(longest.decisions, longest.index, group.attributes),
            group.attributes,
            contract.k,
        )
        for group in contract.group_bys
    }


def _late(listed_since: Dates, window: WindowCounts) -> Dates:
    """Names and values that were not listed when the window began."""
    return {pair: at for pair, at in listed_since.items() if at > window.begins}


def _no_data_before(late: Dates, pairs: Iterable[tuple[str, str]]) -> int | None:
    """The instant from which all of these attribute values are listed, if any is late."""
    keys = [key for name, value in pairs for key in ((name, None), (name, value))]
    return max((late[key] for key in keys if key in late), default=None)


def _window_table(
    contract: Contract,
    policy: Policy,
    maps: Mapping[str, MergeMap],
    window: WindowCounts,
    late: Dates,
) -> WindowTable:
    labelled = window.kind.labelled
    total = _rolled(window, (), None)
    no_data_before = _no_data_before(late, contract.where)
    guard = opened(total.decisions, total.labelled, contract.k).unless(no_data_before is not None)
    rolled = {
        g.name: _rolled(window, g.attributes, maps[g.name].without(late))
        for g in contract.group_bys
    }
    guards = _guards(contract, guard, rolled, late)
    return WindowTable(
        window=window.kind.name,
        start=window.start,
        end=window.end,
        labelled_start=window.labelled_start if labelled else None,
        labelled_end=window.labelled_end if labelled else None,
        total=_total_row(policy, total, guard),
        groups=tuple(
            _group_table(policy, group, rolled[group.name], guards[group.name], late)
            for group in contract.group_bys
        ),
        data_lost=window.data_lost,
        no_data_before=no_data_before,
    )


def _guards(
    contract: Contract, total: Opened, rolled: Mapping[str, Rolled], late: Dates
) -> dict[str, Opened]:
    """What may be shown of every group-by; marginals before the intersections they decide."""
    guards: dict[str, Opened] = {"": total}
    families: dict[str, frozenset[str]] = {"": frozenset()}
    for group in sorted(contract.group_bys, key=lambda group: len(group.attributes)):
        own = opened(rolled[group.name].decisions, rolled[group.name].labelled, contract.k)
        names = frozenset(group.attributes)
        marginals = {name: guards[name] for name, family in families.items() if family < names}
        is_late = any((name, None) in late for name in names)
        guards[group.name] = own.inside(marginals).unless(is_late)
        families[group.name] = names
    return guards


def _rolled(window: WindowCounts, attributes: Sequence[str], pooling: MergeMap | None) -> Rolled:
    """Roll up and pool one group-by; both halves get the same rows."""
    decisions = _rows(window.decisions, window.index, attributes, pooling)
    if not window.kind.labelled:
        return Rolled(decisions, None)
    labelled = _rows(window.labelled, window.index, attributes, pooling)
    slices = tuple(sorted({*decisions.slices, *labelled.slices}))
    return Rolled(aligned(decisions, slices), aligned(labelled, slices))


def _rows(
    counts: Counts, index: CellIndex, attributes: Sequence[str], pooling: MergeMap | None
) -> SliceCounts:
    rolled = roll_up(counts, index, attributes)
    return pooling.apply(rolled) if pooling else aligned(rolled, _TOTAL)


def _total_row(policy: Policy, total: Rolled, guard: Opened) -> SliceRow:
    (row,), _ = build_rows(policy, total, guard)
    return row


def _group_table(
    policy: Policy, group: GroupBy, rolled: Rolled, guard: Opened, late: Dates
) -> GroupTable:
    rows, spreads = build_rows(policy, rolled, guard, group.reference)
    rows += _pooled_away(policy, group, rolled, rows)
    since = {row.slice: _no_data_before(late, parse_atom(row.slice).items()) for row in rows}
    return GroupTable(
        group.name,
        tuple(sorted(rows, key=lambda row: row.slice)),
        spreads,
        {text: at for text, at in since.items() if at is not None},
    )


def _pooled_away(
    policy: Policy, group: GroupBy, rolled: Rolled, rows: Sequence[SliceRow]
) -> tuple[SliceRow, ...]:
    """Declared slices without a row of their own: hidden, like any other small one."""
    values = {a.name: a.values for a in policy.coding.attributes}
    declared = {
        atom_text(dict(zip(group.attributes, combination, strict=True)))
        for combination in product(*(values.get(name, ()) for name in group.attributes))
    }
    missing = sorted(declared - {row.slice for row in rows})
    return tuple(SliceRow(text, hidden(rolled.metrics)) for text in missing)

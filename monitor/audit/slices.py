"""Rates of the slices of one part of a set, through the same door as every number of the service.

:class:`monitor.core.build.Builder` makes the rows: of a synthetic set they are exact, of real
people they passed the guards (k, pooling, bands, rounding, coded complements).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass, replace

from monitor.audit.counting import count, slice_of
from monitor.audit.model import Row
from monitor.audit.report import SliceLine
from monitor.core.atoms import MISSING, OTHER, parse_atom
from monitor.core.build import BlockCounts, Builder
from monitor.core.coding import Coding
from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Metric
from monitor.core.gaps import comparisons
from monitor.core.pooling import MergeMap, decisions_of, merge_map
from monitor.core.rollup import SliceCounts, roll_up
from monitor.core.snapshot import SliceRow

SUPPORTED = (Metric.TPR, Metric.FPR)
"""Metrics of which the contract asks for a support."""


@dataclass(frozen=True, slots=True)
class GroupSlices:
    """The slices of one group-by.

    Attributes:
        group: which; the total is the one without attributes.
        rows: as they may be shown, sorted; those that are hidden have no numbers.
        labelled: the counts behind them, with a row for each that was counted.
    """

    group: GroupBy
    rows: tuple[SliceRow, ...]
    labelled: SliceCounts


def slices_of(rows: Sequence[Row], contract: Contract, coding: Coding) -> tuple[GroupSlices, ...]:
    """The total, then every group-by of the contract.

    k counts people, and a pair is one request however many variants it has: where a pair may be in
    a cell several times, so many times k are asked for.
    """
    counts = count(rows, coding)
    most = _most(rows, coding, ())
    total = _builder(contract, coding, most)
    whole = roll_up(counts.labelled, counts.index, ()).total
    maps = _merge_maps(contract, counts, total.contract.k)
    return (
        GroupSlices(GroupBy(()), (total.window(contract.window, counts, ()).total,), whole),
        *(
            _group(
                _builder(contract, coding, _times(rows, coding, group, maps[group.name])),
                counts,
                group,
                maps[group.name],
            )
            for group in contract.group_bys
        ),
    )


def slices_within(
    table: GroupSlices, rows: Sequence[Row], contract: Contract, coding: Coding
) -> GroupSlices:
    """The group-by of a synthetic set over some of its rows; bounds hold as those of the whole do.

    Args:
        table: of the whole.
        rows: some of the rows that it was made of.
        contract: the same.
        coding: the same.
    """
    group, builder = table.group, Builder(contract, coding)
    pooled = builder.pooled(group, count(rows, coding), None)
    slices = int((decisions_of(table.labelled) > 0).sum())
    shown = builder.group(pooled, compared=comparisons(slices, group.reference)).rows
    return GroupSlices(group, shown, pooled.rolled.decisions)


def _builder(contract: Contract, coding: Coding, times: int) -> Builder:
    guarded = contract if contract.synthetic else replace(contract, k=contract.k * times)
    return Builder(guarded, coding)


def _times(rows: Sequence[Row], coding: Coding, group: GroupBy, pooling: MergeMap) -> int:
    """How often a pair may be in one cell of a group-by.

    In what is pooled, and in the complement of a slice, with all its variants.
    """
    values = {name: set[str]() for name in group.attributes}
    for row in rows:
        for name, value in parse_atom(slice_of(row, group.attributes, coding)).items():
            values[name].add(value)
    apart = all(found <= {*pooling.kept[name]} for name, found in values.items())
    alone = apart and group.reference != COMPLEMENT
    return _most(rows, coding, group.attributes if alone else ())


def _most(rows: Sequence[Row], coding: Coding, attributes: tuple[str, ...]) -> int:
    """The most variants that one pair has in one slice."""
    held = Tally((row.item.pair, slice_of(row, attributes, coding)) for row in rows)
    return max(held.values(), default=1)


def lines_of(groups: Sequence[GroupSlices], contract: Contract) -> tuple[SliceLine, ...]:
    """What is said of each slice; of a synthetic set, those that it has no item of are left out."""
    needed = {metric: contract.limits.min_support(metric) for metric in SUPPORTED}
    return tuple(
        SliceLine(
            group_by=table.group.name,
            slice=row.slice,
            rates=row.rates,
            supports=_supports(row, synthetic=contract.synthetic),
            needed=needed,
        )
        for table in groups
        for row in table.rows
        if row.rates or not contract.synthetic
    )


def declared(table: GroupSlices) -> tuple[SliceRow, ...]:
    """The rows of slices that the settings name, not of what is pooled or missing."""
    unnamed = {MISSING, OTHER}
    return tuple(row for row in table.rows if not unnamed & {*parse_atom(row.slice).values()})


def _group(builder: Builder, counts: BlockCounts, group: GroupBy, pooling: MergeMap) -> GroupSlices:
    pooled = builder.pooled(group, counts, pooling)
    labelled = pooled.rolled.labelled
    assert labelled is not None, "an audit has labels"  # noqa: S101
    return GroupSlices(group, builder.group(pooled).rows, labelled)


def _merge_maps(contract: Contract, counts: BlockCounts, k: int) -> dict[str, MergeMap]:
    """Which values keep their name, by group-by: intersections keep none that marginals pool."""
    maps: dict[str, MergeMap] = {}
    for group in sorted(contract.group_bys, key=lambda group: len(group.attributes)):
        rolled = roll_up(counts.decisions, counts.index, group.attributes)
        within = [m for m in maps.values() if {*m.kept} <= {*group.attributes}]
        maps[group.name] = merge_map(rolled, group.attributes, k, within=within)
    return maps


def _supports(row: SliceRow, *, synthetic: bool) -> dict[Metric, int]:
    """Trials behind TPR and FPR; none at all is a number only where nothing is hidden."""
    found = {metric: row.rates[metric].support for metric in SUPPORTED if metric in row.rates}
    return dict.fromkeys(SUPPORTED, 0) | found if synthetic else found

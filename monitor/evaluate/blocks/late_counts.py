"""Late counts, held back until enough of them have come for every reader, then published.

A late label or decision changes a published block; whoever kept the old one can subtract. So the
counts that are held back for a region of event time are released together, and only if in every
block of every family each row has none of them, or at least k (labels: in each route). A region
lies between two instants at which all families have an edge. Rows are the parts that present and
former ones have in common: a value that has no name now had one when the block was published
without these counts, and may have one again when it is published with them.

Rows that cross each other are asked more (:mod:`monitor.core.privacy.exchange`): whoever subtracts
knows of the late counts what is known of a block, the marginals of its parts too. And labels can be
taken back: what is left of each row is none or at least k.

Changes are counted by the fewest decisions that can be behind them: within a cell the largest
change of any counter. What nets to nothing there is not seen by any reader either. How many labels
there are is seen apart from what they say: so of first labels by themselves there are none or k
too, however many corrections come with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import COUNTERS, Counter, Int64s
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.release_blocks import BlockTally, none_or_enough, on_the_hour
from monitor.core.time import HOUR, Grain
from monitor.evaluate.blocks.crossing import CrossedBlock
from monitor.evaluate.blocks.family_state import FamilyState, Rows
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.windows import split_panes
from monitor.ports import PaneCounts, PaneUnits

LABELS = ~np.isin(np.arange(COUNTERS), (Counter.N, Counter.Q))
"""Mask of the counters that labels change."""


@dataclass(frozen=True, slots=True)
class LateCounts:
    """Counts that are held back: hour, cell and counters of every row."""

    hours: Int64s
    cells: Int64s
    values: Int64s

    def take(self, rows: npt.NDArray[np.bool_]) -> LateCounts:
        """The chosen rows."""
        return LateCounts(self.hours[rows], self.cells[rows], self.values[rows])


def release_late_counts(
    release: ReleaseBlocks,
    index: CellIndex,
    held: LateCounts,
    units: PaneUnits,
    published: Callable[[int, int], LateCounts],
) -> tuple[list[PaneCounts], PaneUnits]:
    """Late counts that may be published now, by hour; often none.

    Args:
        release: the blocks that are published.
        index: what all cells mean.
        held: the late counts that are held back.
        units: their decisions by unit.
        published: counts of the closed hours from one to another (exclusive) that they would join.

    Returns:
        Counts, and their decisions by unit.
    """
    freed = np.zeros(len(units.panes), bool)
    if not len(held.hours):
        return [], units.take(freed)
    left_out, unlabelled = (
        mask[np.searchsorted(index.cells, held.cells)] for mask in release.kept_out(index)
    )
    found: list[LateCounts] = []
    for labels in (False, True):
        values = np.where(labels == LABELS, held.values, 0)
        values[unlabelled | left_out if labels else left_out] = 0
        late = LateCounts(held.hours, held.cells, values).take(np.asarray(values.any(axis=1)))
        guarded = [s for s in release.families.values() if s.rows and len(s.of(labels)[0]) > 1]
        whose = None if labels else units
        for region in _regions(guarded, index, late, whose):
            if _may_join(release, guarded, region, published):
                found.append(region.part)
                if whose is not None:
                    freed |= _of(region.part, index, whose)
    counts = [
        pane
        for part in found
        for pane in split_panes(Grain.HOUR, part.hours, part.cells, part.values)
    ]
    return counts, units.take(freed)


def _of(part: LateCounts, index: CellIndex, units: PaneUnits) -> npt.NDArray[np.bool_]:
    """Mask of the unit rows that are decisions of a part."""
    atoms = index.atoms[np.searchsorted(index.cells, part.cells)]
    places = set(zip(part.hours.tolist(), atoms.tolist(), strict=True))
    pairs = zip(units.panes.tolist(), units.atoms.tolist(), strict=True)
    return np.fromiter((pair in places for pair in pairs), bool, len(units.panes))


@dataclass(frozen=True, slots=True)
class _Region:
    """The late counts between two instants at which all families have an edge.

    Attributes:
        start: the first of them.
        end: the second one.
        index: what all cells mean.
        part: the counts.
        units: their decisions by unit; None of labels.
    """

    start: int
    end: int
    index: CellIndex
    part: LateCounts
    units: PaneUnits | None

    @property
    def labels(self) -> bool:
        """Whether they are labels, not decisions."""
        return self.units is None

    @property
    def taken_back(self) -> bool:
        """Whether any label counts no more."""
        return self.labels and bool((self.part.values[:, Counter.LABELLED] < 0).any())


def _regions(
    families: Sequence[FamilyState], index: CellIndex, late: LateCounts, units: PaneUnits | None
) -> Iterator[_Region]:
    """The regions that have late counts: decisions where ``units`` is given, else labels."""
    if not families or not len(late.hours):
        return
    edges = (on_the_hour(state.of(units is None)[0]) for state in families)
    common = sorted(set.intersection(*map(set, edges)))
    starts = late.hours * HOUR
    for start, end in pairwise(common):
        inside = (starts >= start) & (starts < end)
        if inside.any():
            part = late.take(inside)
            whose = None if units is None else units.take(_of(part, index, units))
            yield _Region(start, end, index, part, whose)


def _may_join(
    release: ReleaseBlocks,
    families: Sequence[FamilyState],
    region: _Region,
    published: Callable[[int, int], LateCounts],
) -> bool:
    """Return True when no family shows a small change, nor leaves anything small."""
    index, part = region.index, region.part
    # Late decisions change the blocks of labelled rates too, and those end elsewhere.
    blocks = [(state, labels) for state in families for labels in sorted({region.labels, True})]
    if not all(
        _all_enough(
            state,
            on_the_hour(state.of(labels)[0]),
            index,
            part,
            region.units,
            since=region.start,
        )
        for state, labels in blocks
    ):
        return False
    tables = [LateCounts(part.hours, part.cells, one) for one in _changes(part, region.labels)]
    if region.taken_back:
        tables.append(_left(part, published(region.start // HOUR, region.end // HOUR)))
        if not all(_leaves_enough(state, region, tables[-1]) for state in families):
            return False
    return all(
        _hides(release, state, labels, region, table)
        for state, labels in blocks
        if state.axes
        for table in tables
    )


def _changes(part: LateCounts, labels: bool) -> Iterator[Int64s]:
    """Counters with first labels alone (or decisions), and with all changes in their place."""
    changes, column = np.abs(part.values), Counter.LABELLED if labels else Counter.N
    for numbers in (changes[:, column], changes.max(axis=1)):
        counted = np.zeros_like(changes)
        counted[:, column] = numbers
        yield counted


def _left(part: LateCounts, published: LateCounts) -> LateCounts:
    """The labels that there are once the late ones have joined."""
    hours, cells, values = (
        np.concatenate([getattr(one, name) for one in (published, part)])
        for name in ("hours", "cells", "values")
    )
    labels = np.zeros_like(values)
    labels[:, Counter.LABELLED] = values[:, Counter.LABELLED]
    places, at = np.unique(np.stack([hours, cells]), axis=1, return_inverse=True)
    sums = np.zeros((places.shape[1], values.shape[1]), np.int64)
    np.add.at(sums, at.ravel(), labels)
    return LateCounts(places[0], places[1], sums)


def _all_enough(
    state: FamilyState,
    edges: Sequence[int],
    index: CellIndex,
    part: LateCounts,
    units: PaneUnits | None,
    *,
    since: int,
) -> bool:
    """Return True when no block has a row with 1 to k - 1 changes, or mostly of one unit.

    Args:
        state: of the family.
        edges: of its blocks.
        index: what all cells mean.
        part: the late counts of a region.
        units: their decisions by unit; None of labels.
        since: where the region begins.
    """
    rows = state.parts_since(since, labels=units is None)
    placed = _Placed.of(rows, edges, index, part)
    tallies = [placed.tally(numbers) for numbers in _changes(part, labels=units is None)]
    k = state.family.k
    if units is None:
        return all(tally.labelled(k) for tally in tallies)
    block = np.searchsorted(edges, units.panes * HOUR, side="right") - placed.first
    shares = rows.units(units, index).in_blocks(block, placed.blocks).summed()
    return all(replace(tally, units=shares).decided(k) for tally in tallies)


def _leaves_enough(state: FamilyState, region: _Region, left: LateCounts) -> bool:
    """Return True when each row of each block that is published has no labels or at least k."""
    edges, abandoned = state.of(labels=True)
    hours = on_the_hour(edges)
    rows = state.parts_since(region.start, labels=True)
    placed = _Placed.of(rows, hours, region.index, left)
    labels = placed.tally(left.values).labels.sum(axis=2).reshape(placed.blocks, rows.size, -1)
    ends = hours[placed.first : placed.first + placed.blocks]
    return none_or_enough(labels[[end not in abandoned for end in ends]], state.family.k)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Counts by block and row of a family.

    Attributes:
        first: the first block that any is in.
        blocks: how many blocks, from that one to the last.
        size: rows of a block.
        place: of each count; negative is outside of the family.
        strata: of each.
    """

    first: int
    blocks: int
    size: int
    place: Int64s
    strata: Int64s

    @classmethod
    def of(cls, rows: Rows, edges: Sequence[int], index: CellIndex, counts: LateCounts) -> _Placed:
        """By the edges of the blocks."""
        at = np.searchsorted(index.cells, counts.cells)
        row = rows.of(index)[at]
        block = np.searchsorted(edges, counts.hours * HOUR, side="right")
        first, size = int(block.min()), rows.size
        place = np.where(row < 0, -1, (block - first) * size + row)
        return cls(first, int(np.ptp(block)) + 1, size, place, index.strata[at])

    def tally(self, values: Int64s) -> BlockTally:
        """Decisions and labels of all rows of all blocks, one block after the other."""
        return BlockTally.of(self.size * self.blocks, self.place, self.strata, values)


def _hides(
    release: ReleaseBlocks, state: FamilyState, labels: bool, region: _Region, table: LateCounts
) -> bool:
    """Return True when no small count of a part of a block is given away, as in the block itself.

    Args:
        release: the blocks that are published.
        state: of a family that crosses others.
        labels: whether its blocks of labels are asked, or those of decisions.
        region: where the late counts are.
        table: what is known of it: changes, or what is left after them.
    """
    assert state.axes is not None, "called for families that cross others"  # noqa: S101
    inner, beside = release.parts_shown(state, labels=labels)
    edges = on_the_hour(state.of(labels)[0])
    rows = state.parts_since(region.start, labels=region.labels)
    table = table.take(np.asarray(table.values.any(axis=1)))
    at = np.searchsorted(region.index.cells, table.cells)
    row, starts = rows.of(region.index)[at], table.hours * HOUR
    blocks = np.unique(np.searchsorted(edges, starts, side="right")).tolist()
    block = CrossedBlock(state.axes, rows.parts, rows.sides)
    block.add(starts, row, at, table.values, region.index)
    return all(
        block.hides(start, end, inner, beside, state.family.k, labels=region.labels)
        for number, (start, end) in enumerate(pairwise(edges), 1)
        if number in blocks
    )

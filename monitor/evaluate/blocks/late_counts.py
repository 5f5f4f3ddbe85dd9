"""Late counts, held back until enough of them have come for every reader, then published.

A late label or decision changes a published block; whoever kept the old one can subtract. So the
counts that are held back for a region of event time are released together, and only if in every
block of every family each row has none of them, or at least k (labels: in each route). A region
lies between two instants at which all families have an edge. Rows are the parts that present and
former ones have in common: a value that has no name now had one when the block was published
without these counts, and may have one again when it is published with them.

Changes are counted by the fewest decisions that can be behind them: within a cell the largest
change of any counter. What nets to nothing there is not seen by any reader either. How many labels
there are is seen apart from what they say: so of first labels by themselves there are none or k
too, however many corrections come with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import COUNTERS, Counter, Int64s
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.release_blocks import BlockTally, on_the_hour
from monitor.core.time import HOUR, Grain
from monitor.evaluate.blocks.family_state import FamilyState
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
    release: ReleaseBlocks, index: CellIndex, held: LateCounts, units: PaneUnits
) -> tuple[list[PaneCounts], PaneUnits]:
    """Late counts that may be published now, by hour; often none.

    Args:
        release: the blocks that are published.
        index: what all cells mean.
        held: the late counts that are held back.
        units: their decisions by unit.

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
        for part in _regions(guarded, index, late, whose):
            found.append(part)
            if whose is not None:
                freed |= _of(part, index, whose)
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


def _regions(
    families: Sequence[FamilyState], index: CellIndex, late: LateCounts, units: PaneUnits | None
) -> Iterator[LateCounts]:
    """The late counts of every region in which no family shows a small change.

    They are decisions where ``units`` is given, else labels.
    """
    if not families or not len(late.hours):
        return
    labels = units is None
    hours = {state.family.name: on_the_hour(state.of(labels)[0]) for state in families}
    common = sorted(set.intersection(*map(set, hours.values())))
    starts = late.hours * HOUR
    for start, end in pairwise(common):
        inside = (starts >= start) & (starts < end)
        if inside.any():
            part = late.take(inside)
            whose = None if units is None else units.take(_of(part, index, units))
            # Late decisions change the blocks of labelled rates too, and those end elsewhere.
            if all(
                _all_enough(state, edges, index, part, whose, since=start)
                for state in families
                for edges in (hours[state.family.name], state.label_edges)
            ):
                yield part


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
    rows_of = state.parts_since(since, labels=units is None)
    at, size = np.searchsorted(index.cells, part.cells), rows_of.size
    rows = rows_of.of(index)[at]
    block = np.searchsorted(edges, part.hours * HOUR, side="right")
    first, blocks = block.min(), int(np.ptp(block)) + 1
    place = np.where(rows < 0, -1, (block - first) * size + rows)
    changes = np.abs(part.values)
    column = Counter.LABELLED if units is None else Counter.N
    tallies = []
    for numbers in (changes[:, column], changes.max(axis=1)):
        counted = np.zeros_like(changes)
        counted[:, column] = numbers
        tallies.append(BlockTally.of(size * blocks, place, index.strata[at], counted))
    k = state.family.k
    if units is None:
        return all(tally.labelled(k) for tally in tallies)
    block = np.searchsorted(edges, units.panes * HOUR, side="right") - first
    shares = rows_of.units(units, index).in_blocks(block, blocks).summed()
    return all(replace(tally, units=shares).decided(k) for tally in tallies)

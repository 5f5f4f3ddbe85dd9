"""When late counts join what is published: once enough of them have come for every reader.

A late label or decision changes a published block; whoever kept the old one can subtract. So the
counts that are held back for a region of event time are let go together, and only if in every
block of every family each row has none of them, or at least k (labels: in each route). A region
lies between two instants at which all families have an edge.

Changes are counted by the fewest decisions that can be behind them: within a cell the largest
change of any counter. What nets to nothing there is not seen by any reader either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from monitor.core.blocks import Tally, on_the_hour
from monitor.core.cells import COUNTERS, Counter, Int64s
from monitor.core.rollup import CellIndex
from monitor.core.time import HOUR, Grain
from monitor.evaluate.family_state import FamilyState
from monitor.evaluate.release import Release
from monitor.evaluate.windows import split_panes
from monitor.ports import PaneCounts

_LABELS = ~np.isin(np.arange(COUNTERS), (Counter.N, Counter.Q))


@dataclass(frozen=True, slots=True)
class Held:
    """What is held back: hour, cell and counters of every row."""

    hours: Int64s
    cells: Int64s
    values: Int64s

    def take(self, rows: npt.NDArray[np.bool_]) -> Held:
        """The chosen rows."""
        return Held(self.hours[rows], self.cells[rows], self.values[rows])


def let_go(release: Release, index: CellIndex, held: Held) -> list[PaneCounts]:
    """The counts that may join what is published now, by hour; often none."""
    if not len(held.hours):
        return []
    left_out, unlabelled = (
        mask[np.searchsorted(index.cells, held.cells)] for mask in release.kept_out(index)
    )
    found: list[Held] = []
    for labels in (False, True):
        values = np.where(labels == _LABELS, held.values, 0)
        values[unlabelled | left_out if labels else left_out] = 0
        late = Held(held.hours, held.cells, values).take(np.asarray(values.any(axis=1)))
        guarded = [s for s in release.families.values() if s.rows and len(s.of(labels)[0]) > 1]
        found += _regions(guarded, index, late, labels)
    return [
        pane
        for part in found
        for pane in split_panes(Grain.HOUR, part.hours, part.cells, part.values)
    ]


def _regions(
    families: Sequence[FamilyState], index: CellIndex, late: Held, labels: bool
) -> Iterator[Held]:
    """The late counts of every region in which no family shows a small change."""
    if not families or not len(late.hours):
        return
    hours = {state.family.name: on_the_hour(state.of(labels)[0]) for state in families}
    edges = sorted(set.intersection(*map(set, hours.values())))
    starts = late.hours * HOUR
    for start, end in pairwise(edges):
        inside = (starts >= start) & (starts < end)
        if inside.any():
            part = late.take(inside)
            if all(
                _all_enough(state, hours[state.family.name], index, part, labels)
                for state in families
            ):
                yield part


def _all_enough(
    state: FamilyState, edges: Sequence[int], index: CellIndex, part: Held, labels: bool
) -> bool:
    """Whether no block of a family has a row with 1 to k - 1 changes."""
    assert state.rows is not None, "only families that hide something"  # noqa: S101
    at = np.searchsorted(index.cells, part.cells)
    size = len(state.rows.slices)
    rows = state.rows.of(index)[at]
    block = np.searchsorted(edges, part.hours * HOUR, side="right")
    first = block - block.min()
    changes = np.abs(part.values).max(axis=1)
    counted = np.zeros_like(part.values)
    counted[:, Counter.LABELLED if labels else Counter.N] = changes
    place = np.where(rows < 0, -1, first * size + rows)
    tally = Tally.of(size * (int(first.max()) + 1), place, index.strata[at], counted)
    k = state.family.k
    return tally.labelled(k) if labels else tally.decided(k)

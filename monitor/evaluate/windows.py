"""Rolling windows as running sums: a cycle adds what is new and never recounts the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from monitor.core.cells import Counts, Int64s, merge
from monitor.core.time import HOUR, Grain, WindowKind, pane_of, pane_start
from monitor.ports import PaneCounts
from monitor.store.fold import EvaluatorStore

STEP = 12 * HOUR
"""A window that moves further at once is summed anew: panes it leaves may be deleted already,
since retention keeps hours only a day longer than the longest labelled window reaches back."""


@dataclass(slots=True)
class RunningWindow:
    """The sum of one run of panes, kept up to date.

    Attributes:
        kind: length and grain.
        first: first pane index.
        end: one past the last pane; ``first == end`` before anything is known.
        counts: the sum, by cell.
    """

    kind: WindowKind
    first: int = 0
    end: int = 0
    counts: Counts = field(default_factory=Counts.empty)

    @property
    def start_at(self) -> int:
        """First instant of the window, microseconds."""
        return pane_start(self.first, self.kind.grain)

    @property
    def end_at(self) -> int:
        """The instant the window runs to, exclusive."""
        return pane_start(self.end, self.kind.grain)

    def move(self, store: EvaluatorStore, until: int) -> bool:
        """Let the window end at the last pane that is complete at ``until``.

        Reads the panes that enter and leave from the store, as of the last committed cycle.
        """
        end = pane_of(until, self.kind.grain)
        first = end - self.kind.panes
        if (first, end) == (self.first, self.end):
            return False
        grain = self.kind.grain
        if 0 <= first - self.first <= STEP // int(grain) and first < self.end:
            entered = store.sum_panes(grain, self.end, end)
            left = store.sum_panes(grain, self.first, first)
            self.counts = merge([self.counts, entered, -left])
        else:
            self.counts = store.sum_panes(grain, first, end)
        self.first, self.end = first, end
        return True

    def add(self, panes: list[PaneCounts]) -> bool:
        """Add what this cycle brings to panes inside the window."""
        inside = [p.counts for p in panes if p.grain == self.kind.grain and self._holds(p.pane)]
        self.counts = merge([self.counts, *inside])
        return bool(inside)

    def _holds(self, pane: int) -> bool:
        return self.first <= pane < self.end


def split_panes(grain: Grain, panes: Int64s, cells: Int64s, values: Int64s) -> list[PaneCounts]:
    """Rows of (pane, cell, counters) as one table a pane; equal cells are added up."""
    order = np.argsort(panes, kind="stable")
    panes, cells, values = panes[order], cells[order], values[order]
    edges = np.flatnonzero(np.diff(panes)) + 1
    return [
        PaneCounts(int(grain), int(panes[rows[0]]), Counts.of(cells[rows], values[rows]))
        for rows in np.split(np.arange(len(panes)), edges)
        if len(rows)
    ]

"""Counts of panes, from rows of many panes."""

from __future__ import annotations

import numpy as np

from monitor.core.counts.cells import Counts, Int64s, PaneCounts
from monitor.core.time import Grain


def split_panes(grain: Grain, panes: Int64s, cells: Int64s, values: Int64s) -> list[PaneCounts]:
    """Return the counts of each pane from rows of (pane, cell, counters); add up equal cells."""
    if len(panes) and (panes == panes[0]).all():  # as in nearly every cycle
        return [PaneCounts(int(grain), int(panes[0]), Counts.from_rows(cells, values))]
    order = np.argsort(panes, kind="stable")
    panes, cells, values = panes[order], cells[order], values[order]
    edges = np.flatnonzero(np.diff(panes)) + 1
    return [
        PaneCounts(int(grain), int(panes[rows[0]]), Counts.from_rows(cells[rows], values[rows]))
        for rows in np.split(np.arange(len(panes)), edges)
        if len(rows)
    ]

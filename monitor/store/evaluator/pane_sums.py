"""Sums by grain, pane and cell: rows are added, never set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, pairwise

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s, PaneCounts
from monitor.store import bulk
from monitor.store.schema import COUNTER_COLUMNS, counts

_COUNTS_AT_ONCE = 5_000  # rows of one statement
_KEYS = ("grain", "pane", "cell")
SUMS = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in COUNTER_COLUMNS)
"""Sums of all counters; the cast is for PostgreSQL, which adds integers up to decimals."""


def add_counts(connection: sa.Connection, panes: Iterable[PaneCounts]) -> None:
    """Add the counts of panes to the stored rows, by few statements."""
    filled = sorted((pane for pane in panes if len(pane.counts.keys)), key=_place)
    if not filled:
        return
    keys, values = _rows(filled)
    if any(_place(pane) == _place(next_pane) for pane, next_pane in pairwise(filled)):
        keys, values = _merge_equal(keys, values)
    # Most counters are 0 in all rows of a cycle: without them a row takes a third of the time.
    counted = np.asarray(values.any(axis=0), bool)
    used = list(compress(COUNTER_COLUMNS, counted))
    zeros = [name for name in COUNTER_COLUMNS if name not in used]
    names, conflict = [*_KEYS, *used], bulk.adding_to(counts, used)
    numbers = np.concatenate([keys, values[:, counted]], axis=1)
    for start in range(0, len(numbers), _COUNTS_AT_ONCE):
        columns = dict(zip(names, numbers[start : start + _COUNTS_AT_ONCE].T, strict=True))
        bulk.insert(connection, counts, columns, conflict, zeros=zeros)


def _place(pane: PaneCounts) -> tuple[int, int]:
    return pane.grain, pane.pane


def _rows(panes: Sequence[PaneCounts]) -> tuple[Int64s, Int64s]:
    """Return keys (grain, pane, cell) and counters of all panes, as two arrays in their order."""
    sizes = [len(pane.counts.keys) for pane in panes]
    keys = np.empty((sum(sizes), len(_KEYS)), np.int64)
    keys[:, :2] = np.repeat([_place(pane) for pane in panes], sizes, axis=0)
    keys[:, 2] = np.concatenate([pane.counts.keys for pane in panes])
    return keys, np.concatenate([pane.counts.values for pane in panes])


def _merge_equal(keys: Int64s, values: Int64s) -> tuple[Int64s, Int64s]:
    """Return keys and values sorted by key, with the values of equal keys added up."""
    order = np.lexsort(keys.T[::-1])
    keys, values = keys[order], values[order]
    first = np.append(True, (np.diff(keys, axis=0) != 0).any(axis=1))
    return keys[first], np.add.reduceat(values, np.flatnonzero(first))

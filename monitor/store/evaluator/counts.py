"""Counts by grain, pane and cell: rows are added up, never set."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s
from monitor.ports import PaneCounts
from monitor.store import bulk
from monitor.store.schema import COUNTER_COLUMNS, counts

SUMS = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in COUNTER_COLUMNS)
"""All counters of a group of rows; PostgreSQL adds whole numbers up to decimals."""


def adding_to(table: sa.Table) -> str:
    """Text after ``ON CONFLICT`` by which rows are added to those that are there."""
    added = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in COUNTER_COLUMNS)
    return f"({', '.join(table.primary_key.columns.keys())}) DO UPDATE SET {added}"


_CHUNK = 5_000


def add_counts(
    connection: sa.Connection, panes: Iterable[PaneCounts], table: sa.Table = counts
) -> None:
    """Add all panes by few statements: a back-fill has a pane for nearly every event.

    A table without ``grain`` has one grain only.
    """
    filled = [pane for pane in panes if len(pane.counts.keys)]
    if not filled:
        return
    sizes = [len(pane.counts.keys) for pane in filled]
    grains = np.repeat([pane.grain for pane in filled], sizes)
    numbers = np.repeat([pane.pane for pane in filled], sizes)
    cells = np.concatenate([pane.counts.keys for pane in filled])
    keys, values = _once(
        np.stack([grains, numbers, cells]), np.concatenate([pane.counts.values for pane in filled])
    )
    names = ("grain", "pane", "cell", *COUNTER_COLUMNS)
    for start in range(0, len(values), _CHUNK):
        rows = slice(start, start + _CHUNK)
        columns = dict(zip(names, [*keys[:, rows].tolist(), *values[rows].T.tolist()], strict=True))
        if "grain" not in table.c:
            del columns["grain"]
        bulk.insert(connection, table, columns, adding_to(table))


def _once(keys: Int64s, values: Int64s) -> tuple[Int64s, Int64s]:
    """Rows of equal key, the columns of ``keys``, added up: a statement may touch a row once."""
    order = np.lexsort(keys[::-1])
    keys, values = keys[:, order], values[order]
    first = np.append(True, (np.diff(keys) != 0).any(axis=0))
    return keys[:, first], np.add.reduceat(values, np.flatnonzero(first))

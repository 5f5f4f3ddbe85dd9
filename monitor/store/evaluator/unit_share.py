"""Decisions by unit, of closed panes and of what is held back: integer sums, for blocks only."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from monitor.ports import PaneUnits
from monitor.store import bulk
from monitor.store.schema import UNIT_COLUMNS, unit_share

_CHUNK = 1_000
NAMES = ", ".join(UNIT_COLUMNS)
SUMS = ", ".join(f"SUM({name})" for name in UNIT_COLUMNS)
_ADDED = ", ".join(f"{name} = unit_share.{name} + excluded.{name}" for name in UNIT_COLUMNS)
_EMPTY = " AND ".join(f"{name} = 0" for name in UNIT_COLUMNS)
ADDING = f"(grain, pane, atom, late) DO UPDATE SET {_ADDED}"


def add_units(connection: sa.Connection, units: Iterable[PaneUnits]) -> None:
    """Add up; no pane and atom comes twice in one table."""
    for table in units:
        for start in range(0, len(table.panes), _CHUNK):
            rows = slice(start, start + _CHUNK)
            columns = {
                "late": [table.late] * len(table.panes[rows]),
                "grain": [table.grain] * len(table.panes[rows]),
                "pane": table.panes[rows].tolist(),
                "atom": table.atoms[rows].tolist(),
                **dict(zip(UNIT_COLUMNS, table.counts[rows].T.tolist(), strict=True)),
            }
            bulk.insert(connection, unit_share, columns, ADDING)
        if table.late:
            connection.execute(sa.text(f"DELETE FROM unit_share WHERE late AND {_EMPTY}"))

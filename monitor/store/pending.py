"""Decisions that labels can find: one bulk insert a flush, sorted by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from monitor.core.cells import Int64s, Route
from monitor.core.time import Grain, pane_of
from monitor.ports import DecisionColumns, Request, ShardFlush, Tallies
from monitor.store import bulk
from monitor.store.schema import pending

_KEY = ("hour", "id")
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows to insert, sorted by key.

    Attributes:
        columns: values by column name.
        owner: which flush each row is from.
        route: its route if a label was requested, else -1.
    """

    columns: dict[str, Int64s]
    owner: Int64s
    route: Int64s


def write_pending(connection: sa.Connection, flushes: Sequence[ShardFlush]) -> None:
    """Insert only, never changed; a row that is there already is a repeated id.

    Repeated ids of decisions whose label was requested are counted by route in the tallies.
    """
    decided = [(f.decisions, f.tallies) for f in flushes if f.decisions is not None]
    if not decided:
        return
    rows = _sorted_rows([decisions for decisions, _ in decided])
    repeated = _insert(connection, rows.columns)
    if repeated is not None:
        for number, (_, tallies) in enumerate(decided):
            _count_repeated(tallies, rows.route[repeated & (rows.owner == number)])


def _sorted_rows(parts: Sequence[DecisionColumns]) -> _Rows:
    decisions = DecisionColumns.concat(parts)
    chosen = decisions.pending
    owner = np.repeat(np.arange(len(parts)), [len(part.ts) for part in parts])[chosen]
    route = np.where(decisions.request != Request.NONE, decisions.routes, -1)[chosen]
    columns = {
        "hour": pane_of(decisions.ts[chosen], Grain.HOUR),
        "id": decisions.ids[chosen],
        "ts": decisions.ts[chosen],
        "cell": decisions.cells[chosen],
        "request": decisions.request[chosen],
    }
    order = np.lexsort((columns["id"], columns["hour"]))
    return _Rows({name: one[order] for name, one in columns.items()}, owner[order], route[order])


def _insert(connection: sa.Connection, columns: dict[str, Int64s]) -> _Bools | None:
    """Insert rows; which of them were there already, None when none was (nearly always)."""
    savepoint = connection.begin_nested()
    if _insert_all(connection, columns):
        savepoint.commit()
        return None
    savepoint.rollback()
    repeated = _repeated(connection, columns)
    fresh = {name: one[~repeated].tolist() for name, one in columns.items()}
    bulk.insert(connection, pending, fresh)
    return repeated


def _insert_all(connection: sa.Connection, columns: dict[str, Int64s]) -> bool:
    """Insert by the fastest way there is; False when a key was there already."""
    if connection.dialect.name == "sqlite":
        rows = {name: one.tolist() for name, one in columns.items()}
        return bulk.insert(connection, pending, rows) == len(columns["id"])
    return bulk.copy_integers(connection, pending, columns)


def _repeated(connection: sa.Connection, columns: dict[str, Int64s]) -> _Bools:
    keys = list(zip(columns["hour"].tolist(), columns["id"].tolist(), strict=True))
    stored: set[tuple[int, int]] = set()
    for head, more in bulk.with_keys(connection, pending, _KEY, keys):
        query = (
            f"{head} SELECT p.hour, p.id FROM w, pending p WHERE p.hour = w.hour AND p.id = w.id"
        )
        stored.update((row[0], row[1]) for row in connection.exec_driver_sql(query, more))
    again = np.fromiter((key in stored for key in keys), np.bool_, len(keys))
    again[1:] |= (np.diff(columns["hour"]) == 0) & (np.diff(columns["id"]) == 0)
    return again


def _count_repeated(tallies: Tallies, routes: Int64s) -> None:
    for route in routes[routes >= 0].tolist():
        name = Route(route).name.lower()
        tallies.repeated[name] = tallies.repeated.get(name, 0) + 1

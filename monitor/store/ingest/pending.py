"""Decisions that labels can find: one bulk insert a flush, sorted by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s, Route
from monitor.core.time import Grain, pane_of
from monitor.flushes import DecisionColumns, LabelRequest, ShardFlush
from monitor.shard_status import Tallies
from monitor.store import bulk
from monitor.store.ingest.recent import RecentDecisions
from monitor.store.schema import pending

_KEY = ("hour", "id")
_FRESH = -1  # instead of a partition: the id is new
_PARTS = 1 << 15  # partitions of files have numbers of 31 bits, the column has 15


@dataclass(frozen=True, slots=True)
class _PendingRows:
    """Rows of ``pending`` to insert, sorted by key.

    Attributes:
        columns: values by column name.
        owner: number of the flush that each row is from.
        route: its route.
    """

    columns: dict[str, Int64s]
    owner: Int64s
    route: Int64s


def write_pending(
    connection: sa.Connection, flushes: Sequence[ShardFlush], recent: RecentDecisions
) -> None:
    """Insert decisions that labels can find; count repeated ids in the tallies of the flushes.

    Repeated ids are counted by route, and by why they were not recognised before: the decision was
    read from another partition, or from this one. Inserted rows are kept in ``recent`` too.
    """
    decided = [
        (f.shard.partition % _PARTS, f.decisions, f.tallies)
        for f in flushes
        if f.decisions is not None
    ]
    if not decided:
        return
    rows = _sorted_rows([(part, decisions) for part, decisions, _ in decided])
    first = _insert(connection, rows.columns, recent)
    if first is None:
        return
    for number, (part, _, tallies) in enumerate(decided):
        repeated = (first != _FRESH) & (rows.owner == number)
        _count_repeated(tallies, rows.route[repeated])
        elsewhere = repeated & (first != part)
        tallies.cross_partition += int(elsewhere.sum())
        tallies.late += int(repeated.sum() - elsewhere.sum())


def _sorted_rows(decided: Sequence[tuple[int, DecisionColumns]]) -> _PendingRows:
    """Return the decisions that labels may look for, sorted by key, with owner and route."""
    parts, columns_of = zip(*decided, strict=True)
    decisions = DecisionColumns.concat(columns_of)
    is_pending = decisions.request != LabelRequest.NONE
    owner = np.repeat(
        np.arange(len(parts)), [len(shard_decisions.ts) for shard_decisions in columns_of]
    )[is_pending]
    columns = {
        "hour": pane_of(decisions.ts[is_pending], Grain.HOUR),
        "id": decisions.ids[is_pending],
        "ts": decisions.ts[is_pending],
        "cell": decisions.cells[is_pending],
        "request": decisions.request[is_pending],
        "part": np.array(parts, np.int64)[owner],
    }
    routes = decisions.routes[is_pending]
    order = np.lexsort((columns["id"], columns["hour"]))
    return _PendingRows(
        {name: column[order] for name, column in columns.items()}, owner[order], routes[order]
    )


def _insert(
    connection: sa.Connection, columns: dict[str, Int64s], recent: RecentDecisions
) -> Int64s | None:
    """Insert rows; return None, or if any key was stored, each row's earlier partition.

    An earlier partition is -1 where the id was not stored.
    """
    savepoint = connection.begin_nested()
    if _insert_all(connection, columns):
        savepoint.commit()
        _keep(recent, columns)
        return None
    savepoint.rollback()
    first = _first_parts(connection, columns)
    fresh = {name: column[first == _FRESH] for name, column in columns.items()}
    # Fewer where another worker has just stored such an id; we do not know which.
    if bulk.insert(connection, pending, fresh) == len(fresh["id"]):
        _keep(recent, fresh)
    return first


def _keep(recent: RecentDecisions, columns: dict[str, Int64s]) -> None:
    recent.add(*(columns[name] for name in ("hour", "id", "ts", "cell", "request")))


def _insert_all(connection: sa.Connection, columns: dict[str, Int64s]) -> bool:
    """Insert all rows the fastest way there is; return False when a key was there already."""
    if connection.dialect.name == "sqlite":
        return bulk.insert(connection, pending, columns) == len(columns["id"])
    return bulk.copy_integers(connection, pending, columns)


def _first_parts(connection: sa.Connection, columns: dict[str, Int64s]) -> Int64s:
    """Return the partition that first brought each row: stored, or earlier in this flush."""
    keys = list(zip(columns["hour"].tolist(), columns["id"].tolist(), strict=True))
    stored: dict[tuple[int, int], int] = {}
    for head, parameters in bulk.with_keys(connection, pending, _KEY, keys):
        query = (
            f"{head} SELECT p.hour, p.id, p.part FROM w, pending p"
            " WHERE p.hour = w.hour AND p.id = w.id"
        )
        for hour, id_, part in connection.exec_driver_sql(query, parameters):
            stored[hour, id_] = part
    first = np.empty(len(keys), np.int64)
    for row, (key, part) in enumerate(zip(keys, columns["part"].tolist(), strict=True)):
        first[row] = stored.get(key, _FRESH)
        stored.setdefault(key, part)  # copies within one flush
    return first


def _count_repeated(tallies: Tallies, routes: Int64s) -> None:
    for route in routes.tolist():
        name = Route(route).name.lower()
        tallies.repeated[name] = tallies.repeated.get(name, 0) + 1

"""Lookup of decisions by hour and id: first in memory, then in ``pending``."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s
from monitor.core.counts.labels import LabelColumns
from monitor.core.time import HOUR, Grain, pane_of
from monitor.flushes import OtherIds
from monitor.id_key import NEAR
from monitor.store import bulk
from monitor.store.ingest.recent import FoundDecisions, RecentDecisions
from monitor.store.schema import pending

_MISS = (-1,) * len(fields(FoundDecisions))


@dataclass(frozen=True, slots=True)
class StoredDecisions:
    """Finder of decisions stored so far, in memory or ``pending``, as a flush sees them.

    Attributes:
        connection: the flush's transaction, its fence already passed.
        recent: decisions that this worker has in memory.
        since: the first hour whose rows in memory still count.
        watermark: event time up to which they are complete; None when unknown.
    """

    connection: sa.Connection
    recent: RecentDecisions
    since: int
    watermark: int | None

    def find(self, hours: Int64s, ids: Int64s) -> FoundDecisions:
        """Return the decisions with these hours and ids, from memory or ``pending``."""
        decisions = self.recent.find(hours, ids, self.since)
        missing = np.flatnonzero(decisions.hour < 0)
        if len(missing):
            decisions.put(missing, _read(self.connection, hours[missing], ids[missing]))
        return decisions


def _read(connection: sa.Connection, hours: Int64s, ids: Int64s) -> FoundDecisions:
    """Return the stored decisions of these keys, row by row; a miss where there is none."""
    keys = list(zip(hours.tolist(), ids.tolist(), strict=True))
    rows: dict[tuple[int, int], tuple[int, ...]] = {}
    for head, parameters in bulk.with_keys(connection, pending, ("hour", "id"), sorted(set(keys))):
        query = (
            f"{head} SELECT p.hour, p.id, p.ts, p.cell, p.request"
            " FROM w, pending p WHERE p.hour = w.hour AND p.id = w.id"
        )
        # 1: it may have a label.
        rows |= {(r[0], r[1]): (*r, 1) for r in connection.exec_driver_sql(query, parameters)}
    if not rows:
        return FoundDecisions.nothing(len(keys))
    return FoundDecisions(*np.array([rows.get(key, _MISS) for key in keys], np.int64).T)


def find_decisions(
    stored: StoredDecisions, labels: LabelColumns, other_ids: OtherIds
) -> FoundDecisions:
    """Return the decision of each label by (hour, id), also beyond a near edge of its hour.

    Where the id key changes at an edge, the decision has its other id beyond it.
    """
    decisions = FoundDecisions.nothing(len(labels))
    hours, offset = pane_of(labels.ts, Grain.HOUR), labels.ts % HOUR
    other_id = others_of(labels, other_ids)
    beyond = np.where(other_id == 0, labels.ids, other_id)
    for shift, applies in ((0, offset >= 0), (-1, offset < NEAR), (1, offset > HOUR - NEAR)):
        rows = np.flatnonzero((decisions.hour < 0) & applies)
        candidates = stored.find(hours[rows] + shift, (beyond if shift else labels.ids)[rows])
        # In its own hour the id decides; beyond an edge it may be another decision's.
        near = np.abs(candidates.ts - labels.ts[rows]) <= NEAR
        matches = (candidates.hour >= 0) & (near if shift else True)
        decisions.put(rows[matches], candidates.take(matches))
    return decisions


def others_of(labels: LabelColumns, other_ids: OtherIds) -> Int64s:
    """Return the id of each label's decision by the other id key; 0 where there is none."""
    if not other_ids:
        return np.zeros(len(labels), np.int64)
    keys = zip(labels.ids.tolist(), labels.ts.tolist(), strict=True)
    return np.array([other_ids.get(key, 0) for key in keys], np.int64)

"""Looks decisions up by hour and id: in memory first, what is not there in ``pending``."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s
from monitor.core.counts.labels import LabelColumns
from monitor.core.time import HOUR, Grain, pane_of
from monitor.ports import NEAR, OtherIds
from monitor.store import bulk
from monitor.store.ingest.recent import Found, RecentDecisions
from monitor.store.schema import pending

_MISS = (-1,) * len(fields(Found))


@dataclass(frozen=True, slots=True)
class StoredDecisions:
    """Decisions stored so far, as a flush sees them.

    Attributes:
        connection: the flush's transaction, its fence already passed.
        recent: what this worker has in memory of them.
        since: the first hour whose rows in memory still count.
        watermark: event time they are complete to, read before; None when unknown.
    """

    connection: sa.Connection
    recent: RecentDecisions
    since: int
    watermark: int | None

    def find(self, hours: Int64s, ids: Int64s) -> Found:
        """The decisions with these keys."""
        found = self.recent.find(hours, ids, self.since)
        missing = np.flatnonzero(found.hour < 0)
        if len(missing):
            found.put(missing, _read(self.connection, hours[missing], ids[missing]))
        return found


def _read(connection: sa.Connection, hours: Int64s, ids: Int64s) -> Found:
    keys = list(zip(hours.tolist(), ids.tolist(), strict=True))
    rows: dict[tuple[int, int], tuple[int, ...]] = {}
    for head, more in bulk.with_keys(connection, pending, ("hour", "id"), sorted(set(keys))):
        query = (
            f"{head} SELECT p.hour, p.id, p.ts, p.cell, p.request"
            " FROM w, pending p WHERE p.hour = w.hour AND p.id = w.id"
        )
        # Whether it has a label is not known.
        rows |= {(r[0], r[1]): (*r, 1) for r in connection.exec_driver_sql(query, more)}
    if not rows:
        return Found.nothing(len(keys))
    return Found(*np.array([rows.get(key, _MISS) for key in keys], np.int64).T)


def find_decisions(stored: StoredDecisions, labels: LabelColumns, other_ids: OtherIds) -> Found:
    """Look labels up by (hour, id); a miss close to an edge also tries the hour beyond it.

    Where the id key changes at that edge, the decision has its other id beyond it.
    """
    found = Found.nothing(len(labels))
    hours, into = pane_of(labels.ts, Grain.HOUR), labels.ts % HOUR
    others = others_of(labels, other_ids)
    beyond = np.where(others == 0, labels.ids, others)
    for shift, may in ((0, into >= 0), (-1, into < NEAR), (1, into > HOUR - NEAR)):
        rows = np.flatnonzero((found.hour < 0) & may)
        there = stored.find(hours[rows] + shift, (beyond if shift else labels.ids)[rows])
        # In its own hour the id alone decides; beyond an edge it may be another decision.
        near = np.abs(there.ts - labels.ts[rows]) <= NEAR
        same = (there.hour >= 0) & (near if shift else True)
        found.put(rows[same], there.take(same))
    return found


def others_of(labels: LabelColumns, other_ids: OtherIds) -> Int64s:
    """The other id of each label, 0 where there is none."""
    if not other_ids:
        return np.zeros(len(labels), np.int64)
    keys = zip(labels.ids.tolist(), labels.ts.tolist(), strict=True)
    return np.array([other_ids.get(key, 0) for key in keys], np.int64)

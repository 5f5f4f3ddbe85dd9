"""Stored sums about clusters of decisions, by UTC day.

Only the evaluator writes them, in the transaction of the cycle that folds their deltas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, fields

import sqlalchemy as sa

from monitor.core.counts.clusters import DayClusters
from monitor.store import bulk
from monitor.store.schema import cluster_day

_NAMES = tuple(field.name for field in fields(DayClusters))
_ADDED = bulk.adding_to(cluster_day, _NAMES)


def read_cluster_days(connection: sa.Connection) -> dict[int, DayClusters]:
    """Return all stored cluster facts, by day since 1970."""
    rows = connection.execute(sa.select(cluster_day)).mappings()
    return {row["day"]: DayClusters(*(row[name] for name in _NAMES)) for row in rows}


def add_cluster_days(connection: sa.Connection, added: Mapping[int, DayClusters]) -> None:
    """Add cluster facts to the stored ones of each day (since 1970)."""
    rows = [(day, *astuple(clusters)) for day, clusters in sorted(added.items())]
    bulk.insert(connection, cluster_day, bulk.by_column(cluster_day, rows), _ADDED)

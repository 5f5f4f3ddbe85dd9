"""Stored sums about clusters of decisions, by UTC day and population.

Only the evaluator writes them, in the transaction of the cycle that folds their deltas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, fields

import sqlalchemy as sa

from monitor.core.counts.clusters import DayClusters, UnitGroup
from monitor.store import bulk
from monitor.store.schema import cluster_day

_NAMES = tuple(field.name for field in fields(DayClusters))
_ADDED = bulk.adding_to(cluster_day, _NAMES)


def read_cluster_days(connection: sa.Connection, first: int = 0) -> dict[UnitGroup, DayClusters]:
    """Return the stored cluster facts of the day ``first`` (since 1970) and later, by group."""
    rows = connection.execute(sa.select(cluster_day).where(cluster_day.c.day >= first))
    return {UnitGroup(*row[:2]): DayClusters(*row[2:]) for row in rows}


def add_cluster_days(connection: sa.Connection, added: Mapping[UnitGroup, DayClusters]) -> None:
    """Add cluster facts to the stored ones of each group."""
    rows = [(*group, *astuple(facts)) for group, facts in sorted(added.items())]
    bulk.insert(connection, cluster_day, bulk.by_column(cluster_day, rows), _ADDED)

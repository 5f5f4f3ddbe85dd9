"""Arrivals of labels per hour, so that their silence can be distinguished from a weekend.

Hours are those of the database's clock: workers' clocks may be wrong, and their hours are compared.
Complaints are left out. They come from people who were served, at their hours, and no labelled rate
rests on them.
"""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa

from monitor.core.blindness import KEPT_WEEKS, WEEK_HOURS, silent_since
from monitor.core.counts.labels import LabelColumns
from monitor.core.time import Grain, pane_of
from monitor.records import Shard
from monitor.store import bulk
from monitor.store.database import database_now
from monitor.store.schema import label_arrival

KEPT_HOURS = KEPT_WEEKS * WEEK_HOURS
"""Hours kept before the newest: what is usual stays known after a silence of any length."""
_ADDED = bulk.adding_to(label_arrival, ("n",))
_BY_HOUR = (
    sa.select(label_arrival.c.hour, sa.func.sum(label_arrival.c.n).label("came"))
    .where(label_arrival.c.topic == sa.bindparam("of"))
    .group_by(label_arrival.c.hour)
)


def add_arrivals(connection: sa.Connection, shard: Shard, labels: LabelColumns) -> None:
    """Add the number of a flush's labels, without complaints, to their shard's present hour.

    This takes one statement at most.
    """
    number = int(np.count_nonzero(labels.complaint == 0))
    if number:
        hour = pane_of(database_now(connection), Grain.HOUR)
        columns = bulk.by_column(label_arrival, [(shard.topic, hour, shard.partition, number)])
        bulk.insert(connection, label_arrival, columns, _ADDED)


def labels_silent_since(connection: sa.Connection, topic: str, now: int) -> int | None:
    """Return the hour of the last label if labels have been silent for too long, else None.

    Args:
        connection: the store.
        topic: topic of labels.
        now: time by the database's clock, microseconds.
    """
    rows = connection.execute(_BY_HOUR, {"of": topic})
    arrivals = {row.hour: int(row.came) for row in rows}
    return silent_since(arrivals, pane_of(now, Grain.HOUR))

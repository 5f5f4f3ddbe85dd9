"""Arrivals of decisions at the broker by five minutes, to know a silence from a night's rest.

An hour is a row with a sum for each of its slots. A slot is written by the worker that owns the
partition, in the transaction of its flush.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import sqlalchemy as sa

from monitor.core.expected_arrivals import KEPT, SLOTS_HOUR
from monitor.core.time import HOUR
from monitor.records import Shard
from monitor.store import bulk
from monitor.store.schema import SLOT_COLUMNS, decision_arrival

KEPT_HOURS = KEPT // HOUR
_CONFLICT = bulk.adding_to(decision_arrival, SLOT_COLUMNS)
# Text is sent as it is: an expression of a dozen sums takes milliseconds to prepare.
_SUMS = ", ".join(f"SUM({name})" for name in SLOT_COLUMNS)
_SLOTS = f"SELECT hour, {_SUMS} FROM decision_arrival WHERE topic = :topic AND hour"
_HOURS_SINCE = f"{_SLOTS} >= :hour GROUP BY hour"
_NEWEST_HOUR = f"{_SLOTS} <= :hour GROUP BY hour ORDER BY hour DESC LIMIT 1"


def add_arrivals(connection: sa.Connection, shard: Shard, arrivals: Mapping[int, int]) -> None:
    """Add a flush's decisions by arrival slot (five minutes) to the stored sums of its shard."""
    hours: defaultdict[int, list[int]] = defaultdict(lambda: [0] * SLOTS_HOUR)
    for slot, number in arrivals.items():
        hours[slot // SLOTS_HOUR][slot % SLOTS_HOUR] += number
    rows = [(shard.topic, hour, shard.partition, *sums) for hour, sums in sorted(hours.items())]
    columns = bulk.by_column(decision_arrival, rows)
    bulk.insert(connection, decision_arrival, columns, _CONFLICT)


def newest_arrival(connection: sa.Connection, topic: str, now: int) -> int | None:
    """Return the newest slot in which a decision of a topic came; None before the first.

    Hours beyond the wall clock are ignored: they are a clock's mistake.
    """
    return max(_slots(connection, _NEWEST_HOUR, topic, now // HOUR), default=None)


def read_arrivals(connection: sa.Connection, topic: str, newest: int) -> dict[int, int]:
    """Return the number of a topic's decisions by slot, from five weeks before ``newest`` on.

    Args:
        connection: of a transaction.
        topic: of the decisions.
        newest: slot of the newest decision.
    """
    first = newest // SLOTS_HOUR - KEPT_HOURS
    return _slots(connection, _HOURS_SINCE, topic, first)


def _slots(connection: sa.Connection, query: str, topic: str, hour: int) -> dict[int, int]:
    """Return how many decisions arrived in each slot that has any."""
    rows = connection.execute(bulk.parsed(query), {"topic": topic, "hour": hour})
    return {
        hour * SLOTS_HOUR + place: int(number)
        for hour, *numbers in rows
        for place, number in enumerate(numbers)
        if number
    }

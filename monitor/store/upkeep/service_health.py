"""Facts from the store by which the whole service is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from monitor.core.blindness import Facts, ReadShard, Reason, blindness
from monitor.core.expected_arrivals import (
    SLOT,
    STEADY_SILENCE,
    MissingDecisions,
    Unseen,
    missing_decisions,
)
from monitor.core.quiet_times import QuietTime
from monitor.core.time import UTC_ZONE, Grain, pane_start
from monitor.store.database import database_now, reading
from monitor.store.exclusions import read_losses
from monitor.store.ingest.decision_arrivals import newest_arrival, read_arrivals
from monitor.store.ingest.label_arrivals import labels_silent_since
from monitor.store.schema import ownership

_SHARDS = sa.select(ownership).where(
    ownership.c.topic.in_(sa.bindparam("topics", expanding=True)), ownership.c.retired_at.is_(None)
)


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """Expectations by which the health of the whole service is judged.

    Attributes:
        live: the service reads the present; else nothing is expected of it.
        lateness: lag of watermarks behind the newest event (microseconds).
        topics: decisions first, labels second.
        pace: seconds of event time that pass in a second; more than 1 only in a simulation.
        expects_decisions: missing decisions are reported.
        quiet: times when no decisions are expected.
        zone: name of the time zone of these times.
    """

    live: bool
    lateness: int
    topics: tuple[str, str]
    pace: float = 1.0
    expects_decisions: bool = True
    quiet: Sequence[QuietTime] = ()
    zone: str = UTC_ZONE


def read_blindness(engine: sa.Engine, policy: HealthPolicy, now: int) -> list[Reason]:
    """Return the reasons why the service is blind; none if it does not read the present.

    Args:
        engine: the store.
        policy: expectations.
        now: wall clock, microseconds.
    """
    if not policy.live:
        return []
    with reading(engine) as connection:
        return blindness(_facts(connection, policy, now))


def _facts(connection: sa.Connection, policy: HealthPolicy, now: int) -> Facts:
    """Read what blindness is judged by, at one moment of the database's clock."""
    database_time = database_now(connection)  # which dates the marks of workers and labels
    silent = labels_silent_since(connection, policy.topics[1], database_time)
    return Facts(
        now,
        policy.lateness,
        _shards(connection, policy.topics, database_time),
        _missing(connection, policy, now),
        labels_silent_since=None if silent is None else pane_start(silent, Grain.HOUR),
        pace=policy.pace,
    )


def _shards(connection: sa.Connection, topics: tuple[str, str], now: int) -> list[ReadShard]:
    """Return the ages of all partitions' marks; None where nothing was recorded."""
    rows = connection.execute(_SHARDS, {"topics": topics})
    return [
        ReadShard(
            name=f"{row.topic}/{row.part}",
            decisions=row.topic == topics[0],
            seen=None if row.seen_at is None else now - row.seen_at,
            newest=row.max_decided_at,
            watermark=row.watermark,
            awaited=row.holds_back and row.parked is None,
            unstored=None if row.unstored_since is None else now - row.unstored_since,
            unread=None if row.unread_since is None else now - row.unread_since,
        )
        for row in rows
    ]


def _missing(connection: sa.Connection, policy: HealthPolicy, now: int) -> MissingDecisions | None:
    """Return the decisions that should have come by now; None if none are missing."""
    if not policy.expects_decisions or policy.pace > 1:
        return None
    newest = newest_arrival(connection, policy.topics[0], now)
    if newest is None or now // SLOT - newest < STEADY_SILENCE:
        return None
    losses = (loss for loss in read_losses(connection) if loss.topic == policy.topics[0])
    lost = [(loss.after or 0, loss.before or now) for loss in losses]
    arrivals = read_arrivals(connection, policy.topics[0], newest)
    return missing_decisions(arrivals, now, Unseen(policy.zone, policy.quiet, lost))

"""Deletes what is past its horizon: by event time for events, by wall clock for the rest."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from monitor.core.time import DAY, HOUR, Grain, pane_of
from monitor.store.database import writing

MINUTES5_KEPT = 26 * HOUR
HOURS_KEPT_AFTER_HORIZON = 8 * DAY


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long things are kept (microseconds)."""

    horizon: int
    aggregates: int
    dead_letters: int
    snapshots: int
    dedupe_window: int


def apply(engine: sa.Engine, policy: RetentionPolicy, slowest: int, now: int) -> None:
    """Delete whole hours, panes and rows that are past their time.

    Args:
        engine: the store.
        policy: how long.
        slowest: event time of the slowest shard of either topic.
        now: wall clock.
    """
    with writing(engine) as connection:
        oldest = {"hour": pane_of(slowest - policy.horizon, Grain.HOUR)}
        for table in ("pending", "label_state"):
            connection.execute(sa.text(f"DELETE FROM {table} WHERE hour < :hour"), oldest)
        for grain, kept in (
            (Grain.MINUTES5, MINUTES5_KEPT),
            (Grain.HOUR, policy.horizon + HOURS_KEPT_AFTER_HORIZON),
            (Grain.DAY, policy.aggregates),
            (Grain.WEEK, policy.aggregates),
        ):
            connection.execute(
                sa.text("DELETE FROM counts WHERE grain = :grain AND pane < :pane"),
                {"grain": int(grain), "pane": pane_of(slowest - kept, grain)},
            )
        _drop_deltas(connection, policy.dedupe_window)
        connection.execute(
            sa.text("DELETE FROM dead_letter WHERE seen_at < :before"),
            {"before": now - policy.dead_letters},
        )
        _thin_snapshots(connection, now - policy.snapshots)


def _drop_deltas(connection: sa.Connection, window: int) -> None:
    """A delta goes once it is folded and no duplicate can be recognised by it any more."""
    connection.execute(
        sa.text(
            "DELETE FROM delta WHERE EXISTS (SELECT 1 FROM fold_cursor f, ownership o"
            " WHERE f.topic = delta.topic AND f.part = delta.part AND f.seq >= delta.seq"
            " AND o.topic = delta.topic AND o.part = delta.part"
            " AND (delta.arrived IS NULL"
            " OR delta.arrived * 60000000 < o.max_decided_at - :window - 60000000))"
        ),
        {"window": window},
    )


def _thin_snapshots(connection: sa.Connection, before: int) -> None:
    """Keep the newest, and the last of every hour until it is too old."""
    connection.execute(
        sa.text(
            "DELETE FROM snapshot WHERE id < (SELECT MAX(id) FROM snapshot)"
            " AND (stored_at < :before OR id NOT IN"
            f" (SELECT MAX(id) FROM snapshot GROUP BY stored_at / {HOUR}))"
        ),
        {"before": before},
    )

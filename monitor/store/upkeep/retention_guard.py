"""Periods and guard of retention: a run that would delete suspiciously much is refused.

Retention follows event time and the wall clock. A wrong clock makes everything overdue at once. So
a run that would leave little is refused until a person confirms it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import sqlalchemy as sa

from monitor.core.time import DAY, HOUR, Grain, pane_of, pane_start, to_datetime
from monitor.errors import RetentionRefusedError
from monitor.store.database import reading
from monitor.store.schema import counts, pending, snapshot

HOURS_KEPT_AFTER_HORIZON = 8 * DAY
MOST_SHARE = 0.5
"""Share of a table that a run may delete; a run every ten minutes deletes far below 1 %."""
FEW = 24
"""Panes that a run may always delete: a store of one day, or an outage as long."""

_FIRST, _LAST = -(1 << 62), 1 << 62
_HOURS = sa.select(sa.func.count(sa.distinct(snapshot.c.stored_at // HOUR)))
_SNAPSHOT_HOURS = (
    _HOURS.where(snapshot.c.stored_at < sa.bindparam("before")),
    _HOURS.where(snapshot.c.stored_at >= sa.bindparam("before")),
)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Periods after which rows are deleted (microseconds), by kind of row."""

    horizon: int
    aggregates: int
    dead_letters: int
    snapshots: int
    dedupe_window: int


@dataclass(frozen=True, slots=True)
class Portion:
    """Number of panes (hours or days) that a run would delete from one table, and leave.

    Attributes:
        what: name of the rows, for people.
        unit: hours or days.
        before: rows before this instant go (microseconds).
        deleted: panes that would go.
        left: panes that would stay.
        whole: panes of the table when none is missing.
    """

    what: str
    unit: str
    before: int
    deleted: int
    left: int
    whole: int

    @property
    def refused(self) -> bool:
        """Return True when the run would delete too much of the table.

        A back-fill of years is cleaned as usual: afterwards most panes of the period remain.
        """
        too_much = self.deleted > max(FEW, MOST_SHARE * (self.deleted + self.left))
        return too_much and 2 * self.left < self.whole

    def __str__(self) -> str:
        total = self.deleted + self.left
        before = f"{to_datetime(self.before):%Y-%m-%d %H:%M}Z"
        return f"{self.deleted:,} of {total:,} {self.unit} of {self.what}, all before {before}"


def require_moderate(
    engine: sa.Engine, policy: RetentionPolicy, slowest: int | None, now: int
) -> None:
    """Refuse a retention run that would delete most of a table.

    Raises:
        RetentionRefusedError: the run would delete more than :data:`MOST_SHARE` of a table.
    """
    refused = [
        portion
        for portion in portions(engine, policy, slowest, now, exact=False)
        if portion.refused
    ]
    if refused:
        raise RetentionRefusedError(
            f"retention would delete {refused[0]}, more than {MOST_SHARE:.0%} of what is kept, and"
            " has deleted nothing. Check the clocks of your machines. If this is right:"
            " slicewatch db prune --confirm"
        )


def portions(
    engine: sa.Engine, policy: RetentionPolicy, slowest: int | None, now: int, *, exact: bool = True
) -> list[Portion]:
    """Return, for each of the largest tables, what a retention run would delete and leave.

    Args:
        engine: the store.
        policy: retention periods.
        slowest: event time of the slowest shard; None while unknown.
        now: wall clock.
        exact: count all panes; else only where more than :data:`FEW` would go.
    """
    deletions = [_portion_of_snapshots(engine, now - policy.snapshots, policy.snapshots)]
    if slowest is not None:
        at = min(slowest, now)
        hours = policy.horizon + HOURS_KEPT_AFTER_HORIZON
        for panes, kept in (
            (_Panes("hourly counts", counts.c.pane, Grain.HOUR), hours),
            (_Panes("daily counts", counts.c.pane, Grain.DAY), policy.aggregates),
            (_Panes("decisions that wait for labels", pending.c.hour, Grain.HOUR), policy.horizon),
        ):
            deletions.append(_portion_of_panes(engine, panes, at - kept, kept, exact=exact))
    return deletions


@dataclass(frozen=True, slots=True)
class _Panes:
    """Column of a table whose panes with rows are counted, with its grain and a name."""

    what: str
    column: sa.Column[int]
    grain: Grain

    def number(self, engine: sa.Engine, first: int, end: int, most: int | None = None) -> int:
        """Return how many panes from ``first`` to ``end`` (exclusive) have rows, up to ``most``."""
        return sum(1 for _ in islice(self._walk(engine, first, end), most))

    def _walk(self, engine: sa.Engine, first: int, end: int) -> Iterator[int]:
        """Yield the panes with rows from ``first`` to ``end``, by one index look-up per pane."""
        several = self.column.table is counts
        query = first_of(self.column, *([of_grain(self.grain)] if several else []))
        with reading(engine) as connection:
            while True:
                pane = connection.execute(query, {"least": first, "before": end}).scalar()
                if pane is None:
                    return
                yield pane
                first = pane + 1


# Statements are cached: to make them costs more than to run them on tables with nothing to delete.


@cache
def first_of(column: sa.Column[int], *also: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return a query for the smallest value of a column from ``least`` on, below ``before``."""
    within = (column < sa.bindparam("before"), column >= sa.bindparam("least"))
    return sa.select(sa.func.min(column)).where(*within, *also)


@cache
def of_grain(grain: Grain) -> sa.ColumnElement[bool]:
    """Return the SQL condition for the panes of one grain in a table."""
    return counts.c.grain == int(grain)


def _portion_of_panes(
    engine: sa.Engine, panes: _Panes, before: int, kept: int, *, exact: bool
) -> Portion:
    """Return how many panes go and stay; unless ``exact``, those that stay are 0 if few go."""
    end, grain = pane_of(before, panes.grain), panes.grain
    deleted = panes.number(engine, _FIRST, end, None if exact else FEW + 1)
    left = 0
    if exact or deleted > FEW:
        deleted = panes.number(engine, _FIRST, end)
        left = panes.number(engine, end, _LAST)
    unit = "hours" if grain is Grain.HOUR else "days"
    return Portion(panes.what, unit, pane_start(end, grain), deleted, left, kept // grain)


def _portion_of_snapshots(engine: sa.Engine, before: int, kept: int) -> Portion:
    """Return the hours of stored Snapshots that would go: one Snapshot per hour is kept."""
    with reading(engine) as connection:
        deleted, left = (
            connection.execute(hours, {"before": before}).scalar_one() for hours in _SNAPSHOT_HOURS
        )
    return Portion("published Snapshots", "hours", before, deleted, left, kept // HOUR)

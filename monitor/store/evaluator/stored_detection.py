"""Stored detection: frozen cohorts, the state of the detectors, limits that were crossed.

Only the evaluator writes it, in the transaction of a cycle: a cohort is stored with the state that
it moved the detectors to, so whoever goes on from there comes to the same decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s
from monitor.core.counts.completeness import CohortState
from monitor.core.time import Grain
from monitor.detection.pages.streams import Stream
from monitor.store import bulk, deltas
from monitor.store.database import reading
from monitor.store.deltas import Payload
from monitor.store.evaluator.published_values import Forgotten
from monitor.store.schema import COUNTER_COLUMNS, cohort, crossing, detector, route_cohort

FROZEN = (
    Counter.N,
    Counter.Q,
    Counter.LABELLED,
    Counter.READY,
    Counter.UNDECIDABLE,
    *range(Counter.DELAY_0, Counter.DELAY_7 + 1),
)
"""The counters of a cell that detectors look at."""

_NO_KEYS = np.empty(0, np.int64)
_DELAY_COLUMNS = COUNTER_COLUMNS[Counter.DELAY_0 : Counter.DELAY_7 + 1]


@dataclass(frozen=True, slots=True)
class FrozenCohort:
    """The cohort of one hour as the detectors consumed it: labels that come later change nothing.

    Attributes:
        hour: pane index.
        state: what became of it.
        live: whether it may page; what was loaded in bulk never does.
        counts: by cell id; empty where it was not consumed.
    """

    hour: int
    state: CohortState
    live: bool
    counts: Counts = field(default_factory=Counts.empty)

    @classmethod
    def of(cls, hour: int, counts: Counts, *, live: bool) -> FrozenCohort:
        """A cohort to be consumed, with what is kept of its counts: detectors see no more."""
        values = np.zeros_like(counts.values)
        values[:, FROZEN] = counts.values[:, FROZEN]
        rows = values.any(axis=1)
        frozen = Counts(counts.keys[rows], values[rows])
        return cls(hour, CohortState.CONSUMED, live, frozen)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A stream that crossed its limit, from then until it is resolved (event time).

    Attributes:
        id: gap-free, from 1 on; never given twice.
        stream: key of the stream; empty once what it named was removed.
        hour: the cohort that crossed.
        live: whether that cohort might page.
        crossed_at: end of that hour.
        latest: the last crossing while it is unresolved.
        resolved_at: None while it is unresolved.
    """

    id: int
    stream: str
    hour: int
    live: bool
    crossed_at: int
    latest: int
    resolved_at: int | None = None

    def stood(self, at: int) -> bool:
        """Return True when unresolved after the cohorts to an instant; only later ones end it."""
        resolved = self.resolved_at is not None and self.resolved_at < at
        return self.live and self.crossed_at <= at and not resolved


@dataclass(frozen=True, slots=True)
class StoredDetection:
    """State of the detectors, as it was committed last.

    Attributes:
        parts: their state by name.
        consumed: the newest hour whose turn has come with its labels; None before the first.
        crossings: all that are kept, by id.
        closed: the newest hour whose turn has come for what needs no labels.
    """

    parts: Mapping[str, bytes] = field(default_factory=dict)
    consumed: int | None = None
    crossings: tuple[Crossing, ...] = ()
    closed: int | None = None

    @property
    def standing(self) -> dict[str, Crossing]:
        """Crossings that are not resolved, by stream."""
        return {one.stream: one for one in self.crossings if one.resolved_at is None}

    @property
    def next_id(self) -> int:
        """The id of the next crossing."""
        return self.crossings[-1].id + 1 if self.crossings else 1


@dataclass(frozen=True, slots=True)
class DetectionChange:
    """Changes of one cycle to detection.

    Attributes:
        parts: to be set.
        dropped: names of parts that go.
        cohorts: whose turn has come with their labels.
        closed: whose turn has come for what needs none; with the decisions alone.
        resolved: when crossings were resolved, by id.
        refreshed: the last crossing of unresolved ones, by id.
        opened: new crossings.
        listed: the weekly list of breaches; None where no week has ended. Incidents are made of it;
            it is not stored by itself.
    """

    parts: Mapping[str, bytes] = field(default_factory=dict)
    dropped: Collection[str] = ()
    cohorts: Sequence[FrozenCohort] = ()
    closed: Sequence[FrozenCohort] = ()
    resolved: Mapping[int, int] = field(default_factory=dict)
    refreshed: Mapping[int, int] = field(default_factory=dict)
    opened: Sequence[Crossing] = ()
    listed: tuple[Stream, ...] | None = None


def read_detection(connection: sa.Connection) -> StoredDetection:
    """Everything but the cohorts."""
    parts = connection.execute(sa.select(detector)).all()
    consumed, closed = (
        connection.execute(sa.select(sa.func.max(table.c.hour))).scalar()
        for table in (cohort, route_cohort)
    )
    crossings = connection.execute(sa.select(crossing).order_by(crossing.c.id)).mappings()
    return StoredDetection(
        {row.name: row.body for row in parts},
        consumed,
        tuple(Crossing(**row) for row in crossings),
        closed,
    )


def consumed_hours(
    connection: sa.Connection, *, labels: bool = True
) -> list[tuple[int, CohortState, bool]]:
    """Every kept hour whose turn has come, in order: what became of it, and whether it was live.

    Args:
        connection: of the store.
        labels: with its labels, or for what needs none.
    """
    table = _table_of(labels=labels)
    query = sa.select(table.c.hour, table.c.state, table.c.live).order_by(table.c.hour)
    rows = connection.execute(query)
    return [(row.hour, CohortState(row.state), bool(row.live)) for row in rows]


class CountedCohorts:
    """Counts of hours: as they are now, and as the detectors consumed them."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def frozen(self, first: int, end: int, *, labels: bool = True) -> list[FrozenCohort]:
        """Cohorts of the hours ``first`` to ``end`` (exclusive), as they were consumed.

        Args:
            first: pane index.
            end: pane index.
            labels: with their labels; else the decisions that had come when the hour was closed.
        """
        table = _table_of(labels=labels)
        hours = sa.select(table).where(table.c.hour >= first, table.c.hour < end)
        with reading(self._engine) as connection:
            rows = connection.execute(hours.order_by(table.c.hour)).all()
        return [_unpacked(row) for row in rows]

    def counted(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        """The cohorts of hours as they are counted now, to be consumed.

        Args:
            hours: pane indices, increasing.
            live: whether they may page.
        """
        query = (
            f"SELECT pane, cell, {', '.join(COUNTER_COLUMNS)} FROM counts WHERE grain = :grain"
            " AND pane >= :first AND pane < :end ORDER BY pane, cell"
        )
        table = self._of_hours(query, COUNTERS + 2, hours)
        return _by_hour(hours, table[:, 0], Counts(table[:, 1], table[:, 2:]), live=live)

    def decided(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        """The decisions of hours as they are counted now, to be consumed without labels.

        Args:
            hours: pane indices, increasing.
            live: whether they may page.
        """
        query = (
            "SELECT pane, cell, n FROM counts WHERE grain = :grain"
            " AND pane >= :first AND pane < :end ORDER BY pane, cell"
        )
        table = self._of_hours(query, 3, hours)
        values = np.zeros((len(table), COUNTERS), np.int64)
        values[:, Counter.N] = table[:, 2]
        return _by_hour(hours, table[:, 0], Counts(table[:, 1], values), live=live)

    def first_counted(self) -> int | None:
        """The oldest hour that anything is counted of; None for an empty store."""
        query = "SELECT MIN(pane) FROM counts WHERE grain = :grain"
        with reading(self._engine) as connection:
            hour: int | None = connection.execute(
                bulk.parsed(query), {"grain": int(Grain.HOUR)}
            ).scalar()
        return hour

    def requests(self, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Decisions and requests of the hours ``first`` to ``end`` (exclusive), in their order.

        Returns:
            Hour, cell, and decisions and requests (shape (rows, 2)) of every row that has
            decisions.
        """
        query = (
            "SELECT pane, cell, n, q FROM counts WHERE grain = :grain"
            " AND pane >= :first AND pane < :end AND n <> 0 ORDER BY pane, cell"
        )
        table = self._table(query, 4, first=first, end=end)
        return table[:, 0], table[:, 1], table[:, 2:]

    def answers(self, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Decisions, requests and labels of the hours ``first`` to ``end`` (exclusive), in order.

        Returns:
            Hour, cell, and decisions, requested and received labels (shape (rows, 3)) of every row
            that has any.
        """
        query = (
            "SELECT pane, cell, n, q, labelled + undecidable FROM counts WHERE grain = :grain"
            " AND pane >= :first AND pane < :end"
            " AND (n <> 0 OR q <> 0 OR labelled <> 0 OR undecidable <> 0) ORDER BY pane, cell"
        )
        table = self._table(query, 5, first=first, end=end)
        return table[:, 0], table[:, 1], table[:, 2:]

    def labels(self, first: int) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Hour, cell, requested and received labels of every hour from ``first`` on, and delays.

        The last has a column for every delay bucket, the others have one number a row.
        """
        query = (
            f"SELECT pane, cell, q, labelled + undecidable, {', '.join(_DELAY_COLUMNS)} FROM counts"
            " WHERE grain = :grain AND pane >= :first"
            " AND (q <> 0 OR labelled <> 0 OR undecidable <> 0)"
        )
        table = self._table(query, 4 + len(_DELAY_COLUMNS), first=first)
        hours, cells, requested, received = table[:, :4].T
        return hours, cells, requested, received, table[:, 4:]

    def _of_hours(self, query: str, width: int, hours: Sequence[int]) -> Int64s:
        """Answer of a query on the hours from the first to the last of some."""
        if not hours:
            return np.zeros((0, width), np.int64)
        return self._table(query, width, first=hours[0], end=hours[-1] + 1)

    def _table(self, query: str, width: int, **where: int) -> Int64s:
        """Answer of a query on hours."""
        with reading(self._engine) as connection:
            return bulk.read_integers(connection, query, width, {"grain": int(Grain.HOUR), **where})


def _by_hour(
    hours: Sequence[int], panes: Int64s, counts: Counts, *, live: bool
) -> list[FrozenCohort]:
    """The cohorts of hours that are row by row in one table, sorted by hour."""
    starts, ends = (np.searchsorted(panes, hours, side).tolist() for side in ("left", "right"))
    return [
        FrozenCohort.of(hour, Counts(counts.keys[start:end], counts.values[start:end]), live=live)
        for hour, start, end in zip(hours, starts, ends, strict=True)
    ]


def _unpacked(row: sa.Row[Any]) -> FrozenCohort:
    body = deltas.decode(row.payload)
    return FrozenCohort(row.hour, CohortState(row.state), row.live, Counts(body.cells, body.values))


def write_detection(connection: sa.Connection, change: DetectionChange, consumed_at: int) -> None:
    """Write what a cycle changes.

    Args:
        connection: the transaction of the cycle.
        change: what to write. An hour that had its turn before, or a second crossing of a stream
            whose first one is unresolved, is an error of the database.
        consumed_at: wall clock.
    """
    _write_cohorts(connection, cohort, change.cohorts, consumed_at)
    _write_cohorts(connection, route_cohort, change.closed, consumed_at)
    bulk.delete(connection, detector, {"name": sorted(change.dropped)})
    names = sorted(change.parts)
    parts: bulk.Columns = {"name": names, "body": [change.parts[name] for name in names]}
    bulk.insert(connection, detector, parts, "(name) DO UPDATE SET body = excluded.body")
    _write_crossings(connection, change)


def _table_of(*, labels: bool) -> sa.Table:
    return cohort if labels else route_cohort


def _write_cohorts(
    connection: sa.Connection,
    table: sa.Table,
    cohorts: Sequence[FrozenCohort],
    consumed_at: int,
) -> None:
    rows = [
        {
            "hour": one.hour,
            "state": one.state.value,
            "live": one.live,
            "consumed_at": consumed_at,
            "payload": deltas.encode(_packed(one)),
        }
        for one in cohorts
    ]
    if rows:
        connection.execute(sa.insert(table), rows)


def _packed(one: FrozenCohort) -> Payload:
    cells, values = one.counts.keys, one.counts.values
    return Payload(np.full(len(cells), one.hour), cells, values, _NO_KEYS, _NO_KEYS)


def _write_crossings(connection: sa.Connection, change: DetectionChange) -> None:
    """Those that are resolved first: the same streams may cross again in the same cycle."""
    for column, instants in (("latest", change.refreshed), ("resolved_at", change.resolved)):
        for number, instant in sorted(instants.items()):
            one = sa.update(crossing).where(crossing.c.id == number)
            connection.execute(one.values({column: instant}))
    rows = [_row(one) for one in change.opened]
    if rows:
        connection.execute(sa.insert(crossing), rows)


def _row(one: Crossing) -> dict[str, Any]:
    return {column.name: getattr(one, column.name) for column in crossing.columns}


def forget_detection(connection: sa.Connection, gone: Forgotten) -> None:
    """Forget what the detectors have learned, and which streams crossed of what is gone.

    Their state names values, and what was counted under a removed value is counted under another
    one now: they begin anew with the next cohort. That some limit was crossed stays known.
    """
    connection.execute(sa.delete(detector))
    ended = sa.func.coalesce(crossing.c.resolved_at, crossing.c.latest)
    for number, key in connection.execute(sa.select(crossing.c.id, crossing.c.stream)).all():
        if key and gone.stream(Stream.parse(key)):
            one = sa.update(crossing).where(crossing.c.id == number)
            connection.execute(one.values(stream="", resolved_at=ended))

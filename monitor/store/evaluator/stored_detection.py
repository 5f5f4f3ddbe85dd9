"""Stored detection: frozen cohorts, the state of the detectors, crossings of limits.

Only the evaluator writes it, in the transaction of a cycle. A cohort is stored with the state that
it moved the detectors to, so the next evaluator comes to the same decisions.
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
"""Counters of a cell that detectors look at."""

_NO_KEYS = np.empty(0, np.int64)
_DELAY_COLUMNS = COUNTER_COLUMNS[Counter.DELAY_0 : Counter.DELAY_7 + 1]


@dataclass(frozen=True, slots=True)
class FrozenCohort:
    """Cohort of one hour as the detectors consumed it: later labels change nothing.

    Attributes:
        hour: pane index.
        state: outcome of the cohort.
        live: whether it may page; bulk-loaded hours never do.
        counts: by cell id; empty where it was not consumed.
    """

    hour: int
    state: CohortState
    live: bool
    counts: Counts = field(default_factory=Counts.empty)

    @classmethod
    def from_counts(cls, hour: int, counts: Counts, *, live: bool) -> FrozenCohort:
        """Return a consumed cohort of an hour, reduced to the counters that detectors see."""
        values = np.zeros_like(counts.values)
        values[:, FROZEN] = counts.values[:, FROZEN]
        rows = values.any(axis=1)
        frozen = Counts(counts.keys[rows], values[rows])
        return cls(hour, CohortState.CONSUMED, live, frozen)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A stream's crossing of its limit, with the event times at which it crossed and was resolved.

    Attributes:
        id: gap-free, from 1 on; never reused.
        stream: key of the stream; empty once its name or value was removed.
        hour: cohort that crossed.
        live: whether that cohort might page.
        crossed_at: end of that hour.
        latest: the last crossing while it is unresolved.
        resolved_at: None while it is unresolved.
        began: estimated time of the change that made it cross; None if unknown.
    """

    id: int
    stream: str
    hour: int
    live: bool
    crossed_at: int
    latest: int
    resolved_at: int | None = None
    began: int | None = None

    def stood(self, at: int) -> bool:
        """Return True if the crossing was live and unresolved after the cohorts up to ``at``."""
        resolved = self.resolved_at is not None and self.resolved_at < at
        return self.live and self.crossed_at <= at and not resolved


@dataclass(frozen=True, slots=True)
class StoredDetection:
    """State of detection as last committed: detector states, newest hours and crossings.

    Attributes:
        parts: states of the detectors by name.
        consumed: newest hour consumed with its labels; None before the first.
        crossings: all stored crossings, by id.
        closed: newest hour consumed without labels.
    """

    parts: Mapping[str, bytes] = field(default_factory=dict)
    consumed: int | None = None
    crossings: tuple[Crossing, ...] = ()
    closed: int | None = None

    @property
    def standing(self) -> dict[str, Crossing]:
        """Return the unresolved crossings, by key of the stream."""
        return {
            crossed.stream: crossed for crossed in self.crossings if crossed.resolved_at is None
        }

    @property
    def next_id(self) -> int:
        """Return the id of the next crossing."""
        return self.crossings[-1].id + 1 if self.crossings else 1


@dataclass(frozen=True, slots=True)
class DetectionChange:
    """Changes of one cycle to detection: detector states, consumed hours and crossings.

    Attributes:
        parts: new states of detectors.
        dropped: names of detectors to delete.
        cohorts: hours consumed with their labels.
        closed: hours consumed without labels, as decisions only.
        resolved: event time at which crossings were resolved, by id.
        refreshed: last crossing of unresolved ones, by id.
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
    """Return the stored detector states, newest hours and crossings, without the cohorts."""
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
    """Return (hour, state, live) of all stored consumed hours, in order.

    Args:
        connection: of the store.
        labels: hours consumed with labels, or else without.
    """
    table = _cohort_table(labels=labels)
    query = sa.select(table.c.hour, table.c.state, table.c.live).order_by(table.c.hour)
    rows = connection.execute(query)
    return [(row.hour, CohortState(row.state), bool(row.live)) for row in rows]


class CountedCohorts:
    """Reader of hourly counts: as they are now, and as the detectors consumed them."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def frozen(self, first: int, end: int, *, labels: bool = True) -> list[FrozenCohort]:
        """Return the cohorts of hours ``first`` to ``end`` (exclusive) as the detectors used them.

        Args:
            first: pane index.
            end: pane index.
            labels: with labels, or else the decisions that had come when the hour closed.
        """
        table = _cohort_table(labels=labels)
        hours = sa.select(table).where(table.c.hour >= first, table.c.hour < end)
        with reading(self._engine) as connection:
            rows = connection.execute(hours.order_by(table.c.hour)).all()
        return [_unpacked(row) for row in rows]

    def counted(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        """Return a cohort to be consumed for each hour, with its present counts.

        Args:
            hours: pane indices, increasing.
            live: whether they may page.
        """
        table = self._read_hours(COUNTER_COLUMNS, hours)
        return _by_hour(hours, table[:, 0], Counts(table[:, 1], table[:, 2:]), live=live)

    def decided(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        """Return a cohort to be consumed for each hour, with its present decisions alone.

        Args:
            hours: pane indices, increasing.
            live: whether they may page.
        """
        table = self._read_hours(["n"], hours)
        values = np.zeros((len(table), COUNTERS), np.int64)
        values[:, Counter.N] = table[:, 2]
        return _by_hour(hours, table[:, 0], Counts(table[:, 1], values), live=live)

    def first_counted(self) -> int | None:
        """Return the oldest hour (pane index) with counts; None for an empty store."""
        query = "SELECT MIN(pane) FROM counts WHERE grain = :grain"
        with reading(self._engine) as connection:
            hour: int | None = connection.execute(
                bulk.parsed(query), {"grain": int(Grain.HOUR)}
            ).scalar()
        return hour

    def requests(self, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return hour, cell, and decisions and requests of hours ``first`` to ``end``, as arrays.

        Returns:
            Hour, cell, and decisions and requests (shape (rows, 2)) of all rows with decisions.
        """
        table = self._between(first, end, ["n", "q"], " AND n <> 0")
        return table[:, 0], table[:, 1], table[:, 2:]

    def answers(self, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return hour, cell, and decisions, requests and labels of hours, as three arrays.

        Returns:
            Hour, cell, and decisions, requested and received labels (shape (rows, 3)) of all rows
            that are not 0, in order.
        """
        filled = " AND (n <> 0 OR q <> 0 OR labelled <> 0 OR undecidable <> 0)"
        table = self._between(first, end, ["n", "q", "labelled + undecidable"], filled)
        return table[:, 0], table[:, 1], table[:, 2:]

    def labels(self, first: int) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Return hour, cell, requested and received labels, and delays since hour ``first``.

        Delays have a column for every delay bucket, the others have one number per row.
        """
        query = (
            f"SELECT pane, cell, q, labelled + undecidable, {', '.join(_DELAY_COLUMNS)} FROM counts"
            " WHERE grain = :grain AND pane >= :first"
            " AND (q <> 0 OR labelled <> 0 OR undecidable <> 0)"
        )
        table = self._table(query, 4 + len(_DELAY_COLUMNS), first=first)
        hours, cells, requested, received = table[:, :4].T
        return hours, cells, requested, received, table[:, 4:]

    def _read_hours(self, columns: Sequence[str], hours: Sequence[int]) -> Int64s:
        """Return pane, cell and columns of all rows from the first to the last of ``hours``."""
        if not hours:
            return np.zeros((0, len(columns) + 2), np.int64)
        return self._between(hours[0], hours[-1] + 1, columns)

    def _between(self, first: int, end: int, columns: Sequence[str], filled: str = "") -> Int64s:
        """Return pane, cell and columns of the rows from ``first`` to before ``end``, in order."""
        query = (
            f"SELECT pane, cell, {', '.join(columns)} FROM counts WHERE grain = :grain"
            f" AND pane >= :first AND pane < :end{filled} ORDER BY pane, cell"
        )
        return self._table(query, len(columns) + 2, first=first, end=end)

    def _table(self, query: str, width: int, **where: int) -> Int64s:
        """Return the integer rows of a query on hourly counts, with ``where`` as parameters."""
        with reading(self._engine) as connection:
            return bulk.read_integers(connection, query, width, {"grain": int(Grain.HOUR), **where})


def _by_hour(
    hours: Sequence[int], panes: Int64s, counts: Counts, *, live: bool
) -> list[FrozenCohort]:
    """Return the cohort of each hour, from rows that are sorted by pane."""
    starts, ends = (np.searchsorted(panes, hours, side).tolist() for side in ("left", "right"))
    return [
        FrozenCohort.from_counts(
            hour, Counts(counts.keys[start:end], counts.values[start:end]), live=live
        )
        for hour, start, end in zip(hours, starts, ends, strict=True)
    ]


def _unpacked(row: sa.Row[Any]) -> FrozenCohort:
    body = deltas.decode(row.payload)
    return FrozenCohort(row.hour, CohortState(row.state), row.live, Counts(body.cells, body.values))


def write_detection(connection: sa.Connection, change: DetectionChange, consumed_at: int) -> None:
    """Store consumed hours, crossings and states of detectors; delete states of dropped detectors.

    Args:
        connection: the transaction of the cycle.
        change: the changes. An hour that was consumed before, or a second crossing of a stream
            whose first one is unresolved, is an error of the database.
        consumed_at: wall clock (microseconds).
    """
    _write_cohorts(connection, cohort, change.cohorts, consumed_at)
    _write_cohorts(connection, route_cohort, change.closed, consumed_at)
    bulk.delete(connection, detector, {"name": sorted(change.dropped)})
    parts = bulk.by_column(detector, sorted(change.parts.items()))
    bulk.insert(connection, detector, parts, bulk.replacing(detector))
    _write_crossings(connection, change)


def _cohort_table(*, labels: bool) -> sa.Table:
    return cohort if labels else route_cohort


def _write_cohorts(
    connection: sa.Connection, table: sa.Table, cohorts: Sequence[FrozenCohort], consumed_at: int
) -> None:
    """Insert consumed hours, each with its counts, into ``table``."""
    rows = [
        {
            "hour": frozen.hour,
            "state": frozen.state.value,
            "live": frozen.live,
            "consumed_at": consumed_at,
            "payload": deltas.encode(_packed(frozen)),
        }
        for frozen in cohorts
    ]
    if rows:
        connection.execute(sa.insert(table), rows)


def _packed(frozen: FrozenCohort) -> Payload:
    cells, values = frozen.counts.keys, frozen.counts.values
    return Payload(np.full(len(cells), frozen.hour), cells, values, _NO_KEYS, _NO_KEYS)


def _write_crossings(connection: sa.Connection, change: DetectionChange) -> None:
    """Store refreshed and resolved crossings, then new ones: a stream may cross again."""
    for column, instants in (("latest", change.refreshed), ("resolved_at", change.resolved)):
        for number, instant in sorted(instants.items()):
            by_id = sa.update(crossing).where(crossing.c.id == number)
            connection.execute(by_id.values({column: instant}))
    rows = [_row(crossed) for crossed in change.opened]
    if rows:
        connection.execute(sa.insert(crossing), rows)


def _row(crossed: Crossing) -> dict[str, Any]:
    return {column.name: getattr(crossed, column.name) for column in crossing.columns}


def forget_detection(connection: sa.Connection, gone: Forgotten) -> None:
    """Delete the state of the detectors; blank and resolve crossings of forgotten streams.

    The state names values, and counts of a removed value now belong to another one: detectors begin
    anew with the next cohort. A crossing stays on record without its stream.
    """
    connection.execute(sa.delete(detector))
    ended = sa.func.coalesce(crossing.c.resolved_at, crossing.c.latest)
    for number, key in connection.execute(sa.select(crossing.c.id, crossing.c.stream)).all():
        if key and gone.stream(Stream.parse(key)):
            by_id = sa.update(crossing).where(crossing.c.id == number)
            connection.execute(by_id.values(stream="", resolved_at=ended))

"""Stored release: closed panes, edges of blocks, merge maps, counts that are held back.

Only the evaluator writes it, in the transaction of a cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s, merge
from monitor.core.privacy.dominance import UNIT_COUNTS
from monitor.core.time import HOUR, Grain, pane_of
from monitor.ports import PaneCounts, PaneUnits
from monitor.store import bulk
from monitor.store.database import reading
from monitor.store.evaluator.pane_sums import SUMS, UNIT_NAMES, add_counts, add_units
from monitor.store.schema import (
    COUNTER_COLUMNS,
    held_back,
    release_edge,
    release_map,
    release_mark,
    released,
)

_ANY = 1 << 40  # beyond every pane
_COUNTERS = ", ".join(COUNTER_COLUMNS)
_EMPTY = " AND ".join(f"{name} = 0" for name in COUNTER_COLUMNS)
_CLOSED_BY = (Counter.N, Counter.LABELLED, Counter.READY)
_CLOSED_BY_NAMES = [COUNTER_COLUMNS[counter] for counter in _CLOSED_BY]
_CLOSED_BY_SUMS = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in _CLOSED_BY_NAMES)


@dataclass(frozen=True, slots=True)
class StoredEdge:
    """End of a block of a family (microseconds); an abandoned block is never published."""

    family: str
    labels: bool
    at: int
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class StoredMap:
    """The merge map of a family as text, and the condition it was made under."""

    condition: str
    body: str


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """All that is kept, as it was committed last."""

    marks: Mapping[str, int] = field(default_factory=dict)
    edges: Sequence[StoredEdge] = ()
    maps: Mapping[str, StoredMap] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """Changes of one cycle to the release.

    Attributes:
        marks: to be set.
        anew: families whose edges are all replaced (or dropped).
        edges: to be added.
        maps: merge maps to be set; those of families in ``anew`` that are absent are dropped.
        released: counts to add to closed panes.
        held_back: counts by hour to hold back; negative ones were released.
        units: decisions by unit to add to closed panes.
    """

    marks: Mapping[str, int] = field(default_factory=dict)
    anew: Collection[str] = ()
    edges: Sequence[StoredEdge] = ()
    maps: Mapping[str, StoredMap] = field(default_factory=dict)
    released: Sequence[PaneCounts] = ()
    held_back: Sequence[PaneCounts] = ()
    units: Sequence[PaneUnits] = ()


def read_release(connection: sa.Connection) -> StoredRelease:
    """Everything but the counts."""
    marks = connection.execute(sa.select(release_mark)).all()
    edges = connection.execute(sa.select(release_edge).order_by(release_edge.c.at)).all()
    maps = connection.execute(sa.select(release_map)).all()
    return StoredRelease(
        {row.name: row.at for row in marks},
        [StoredEdge(row.family, row.labels, row.at, row.burned) for row in edges],
        {row.family: StoredMap(row.condition, row.body) for row in maps},
    )


def write_release(connection: sa.Connection, change: ReleaseChange) -> None:
    """Write what a cycle changes."""
    add_counts(connection, change.released, released)
    _hold_back(connection, change.held_back)
    add_units(connection, change.units)
    for family in sorted(change.anew):
        connection.execute(sa.delete(release_edge).where(release_edge.c.family == family))
        connection.execute(sa.delete(release_map).where(release_map.c.family == family))
    columns: bulk.Columns = {
        "family": [edge.family for edge in change.edges],
        "labels": [edge.labels for edge in change.edges],
        "at": [edge.at for edge in change.edges],
        "burned": [edge.abandoned for edge in change.edges],
    }
    bulk.insert(connection, release_edge, columns)
    columns = {
        "family": list(change.maps),
        "condition": [stored.condition for stored in change.maps.values()],
        "body": [stored.body for stored in change.maps.values()],
    }
    bulk.insert(connection, release_map, columns)
    columns = {"name": list(change.marks), "at": list(change.marks.values())}
    bulk.insert(connection, release_mark, columns, "(name) DO UPDATE SET at = excluded.at")


def forget_release(connection: sa.Connection, attributes: Collection[str]) -> None:
    """Forget the families of these attributes, and all merge maps: they name values.

    Without maps the evaluator makes all blocks anew, as unions of those that are left.
    """
    connection.execute(sa.delete(release_map))
    names = connection.execute(sa.select(release_edge.c.family).distinct()).scalars().all()
    for name in names:
        if set(name.rpartition("/")[2].split("+")) & set(attributes):
            connection.execute(sa.delete(release_edge).where(release_edge.c.family == name))


def _hold_back(connection: sa.Connection, panes: Sequence[PaneCounts]) -> None:
    add_counts(connection, panes, held_back)
    if panes:
        connection.execute(bulk.parsed(f"DELETE FROM held_back WHERE {_EMPTY}"))


class ClosedPanes:
    """Counts of closed panes, and those that are held back from them."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def sums(self, grain: Grain, first: int, end: int) -> Counts:
        """Closed counts of the panes ``first`` to ``end`` (exclusive), added up by cell."""
        # One pane has a cell once: there is nothing to add up.
        columns, group = (_COUNTERS, "") if end - first == 1 else (SUMS, " GROUP BY cell")
        query = (
            f"SELECT cell, {columns} FROM released"
            f" WHERE grain = :grain AND pane >= :first AND pane < :end{group} ORDER BY cell"
        )
        table = self._table(query, COUNTERS + 1, grain=int(grain), first=first, end=end)
        return Counts(table[:, 0], table[:, 1:])

    def rest(self, week: int) -> Counts:
        """Labels that the Release of a week has besides its blocks, by cell; see the evaluator."""
        return self.sums(Grain.WEEK, week, week + 1)

    def counted_sums(self, grain: Grain, first: int, end: int) -> Counts:
        """The same with the counters that blocks are closed by alone; see :meth:`counted`."""
        query = (
            f"SELECT cell, {_CLOSED_BY_SUMS} FROM released"
            " WHERE grain = :grain AND pane >= :first AND pane < :end GROUP BY cell ORDER BY cell"
        )
        table = self._table(query, len(_CLOSED_BY) + 1, grain=int(grain), first=first, end=end)
        return Counts(table[:, 0], _widened(table[:, 1:]))

    def held_back_sums(self, first: int, end: int) -> Counts:
        """Counts that are in no block of the hours ``first`` to ``end`` (exclusive), by cell.

        Held-back ones, and the rests of weeks that have any of these hours: merge maps are made
        with both, or a value would lose its name because a week has taken its labels. With the
        counters that blocks are closed by.
        """
        query = (
            f"SELECT cell, {_CLOSED_BY_SUMS} FROM held_back"
            " WHERE pane >= :first AND pane < :end GROUP BY cell ORDER BY cell"
        )
        table = self._table(query, len(_CLOSED_BY) + 1, first=first, end=end)
        first_week, last_week = (pane_of(at * HOUR, Grain.WEEK) for at in (first, end - 1))
        rests = self.counted_sums(Grain.WEEK, first_week, last_week + 1)
        return merge([Counts(table[:, 0], _widened(table[:, 1:])), rests])

    def rows(self, grain: Grain, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Pane, cell and counters of every row of the panes ``first`` to ``end`` (exclusive)."""
        query = (
            f"SELECT pane, cell, {_COUNTERS} FROM released"
            " WHERE grain = :grain AND pane >= :first AND pane < :end ORDER BY pane"
        )
        table = self._table(query, COUNTERS + 2, grain=int(grain), first=first, end=end)
        return table[:, 0], table[:, 1], table[:, 2:]

    def counted(self, grain: Grain, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """The same of rows that hold anything, with the counters that blocks are closed by alone.

        Most counters are of labels that say more: to read them takes most of the time.
        """
        query = (
            f"SELECT pane, cell, {', '.join(_CLOSED_BY_NAMES)} FROM released WHERE grain = :grain"
            f" AND pane >= :first AND pane < :end AND NOT ({_EMPTY}) ORDER BY pane"
        )
        width = len(_CLOSED_BY) + 2
        table = self._table(query, width, grain=int(grain), first=first, end=end)
        return table[:, 0], table[:, 1], _widened(table[:, 2:])

    def held_back(self) -> tuple[Int64s, Int64s, Int64s]:
        """Hour, cell and counters of everything that is held back."""
        query = f"SELECT pane, cell, {_COUNTERS} FROM held_back ORDER BY pane, cell"
        table = self._table(query, COUNTERS + 2)
        return table[:, 0], table[:, 1], table[:, 2:]

    def first_hour(self) -> int | None:
        """The oldest closed hour that is kept."""
        query = "SELECT MIN(pane) FROM released WHERE grain = :grain"
        with reading(self._engine) as connection:
            first: int | None = connection.execute(
                bulk.parsed(query), {"grain": int(Grain.HOUR)}
            ).scalar()
        return first

    def units(self, grain: Grain, first: int, end: int, *, late: bool = False) -> PaneUnits:
        """Decisions by unit of the panes ``first`` to ``end`` (exclusive), in their order.

        Of closed panes, or ``late`` ones: what is held back from them.
        """
        query = (
            f"SELECT pane, atom, {UNIT_NAMES} FROM unit_share"
            " WHERE late = :late AND grain = :grain AND pane >= :first AND pane < :end"
            " ORDER BY pane, atom"
        )
        where = {"late": late, "grain": int(grain), "first": first, "end": end}
        table = self._table(query, UNIT_COUNTS + 2, **where)
        return PaneUnits(int(grain), table[:, 0], table[:, 1], table[:, 2:], late)

    def late_units(self) -> PaneUnits:
        """Decisions by unit of everything that is held back, by hour."""
        return self.units(Grain.HOUR, -_ANY, _ANY, late=True)

    def _table(self, query: str, width: int, **where: int) -> Int64s:
        with reading(self._engine) as connection:
            return bulk.read_integers(connection, query, width, where)


def _widened(closed_by: Int64s) -> Int64s:
    """All counters, of which those are 0 that blocks are not closed by."""
    values = np.zeros((len(closed_by), COUNTERS), np.int64)
    values[:, _CLOSED_BY] = closed_by
    return values

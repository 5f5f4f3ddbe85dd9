"""The store as the evaluator uses it: lease, deltas in, counts and Snapshots out.

A cycle reads and computes outside any transaction. Then it writes in one short transaction that
begins with the fence of the lease, so two evaluators can never fold the same delta twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from monitor.core.counts.cells import PaneCounts
from monitor.core.counts.clusters import DayClusters, UnitGroup
from monitor.core.publish.release import Revision
from monitor.core.publish.snapshot import Snapshot, encode
from monitor.records import Shard
from monitor.store import bulk
from monitor.store.database import reading, writing
from monitor.store.evaluator.calendar_tables import CalendarChange, write_calendar
from monitor.store.evaluator.cells import StoredCells
from monitor.store.evaluator.cluster_days import add_cluster_days
from monitor.store.evaluator.folding import Deltas, move_cursors, require_folded
from monitor.store.evaluator.lease import Lease, require_epoch
from monitor.store.evaluator.pane_sums import add_counts
from monitor.store.evaluator.probe_sets import ProbeSetsChange, write_probe_sets
from monitor.store.evaluator.published_tables import Publication, write_published
from monitor.store.evaluator.stored_detection import (
    CountedCohorts,
    DetectionChange,
    write_detection,
)
from monitor.store.evaluator.stored_incidents import IncidentChange, note_snapshot, write_incidents
from monitor.store.evaluator.weekly_releases import write_revisions

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Cycle:
    """Changes that one evaluator cycle writes.

    Attributes:
        folded: last folded delta of each shard before the cycle; the store must agree.
        cursors: last folded delta of each shard that moved.
        increments: counts to add, by grain and pane.
        detection: hours that the detectors consumed, and their new state.
        incidents: incidents that were opened, changed or resolved.
        probes: states of declared probe sets.
        clusters: facts on clusters to add, by UTC day and population.
        snapshot: Snapshot to store and show; None when nothing changed.
        body: the Snapshot's bytes, where they are known.
        weeks: new revisions of Releases.
        calendar: new calendar tables, by use case.
    """

    folded: Mapping[Shard, int] = field(default_factory=dict)
    cursors: Mapping[Shard, int] = field(default_factory=dict)
    increments: Sequence[PaneCounts] = ()
    detection: DetectionChange = field(default_factory=DetectionChange)
    incidents: IncidentChange = field(default_factory=IncidentChange)
    probes: ProbeSetsChange = field(default_factory=ProbeSetsChange)
    clusters: Mapping[UnitGroup, DayClusters] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    body: bytes | None = None
    weeks: Sequence[Revision] = ()
    calendar: Sequence[CalendarChange] = ()


class EvaluatorStore:
    """Access of one evaluator thread to the store: lease, deltas, cohorts, and commits.

    Attributes:
        engine: the database.
        decisions_topic: topic whose shards make the watermark.
        lease: the lease of the evaluator.
        deltas: deltas to fold.
        cells: the dictionary of cells.
        cohorts: counts of hours that detectors consume.
    """

    def __init__(self, engine: sa.Engine, decisions_topic: str) -> None:
        self.engine = engine
        self.decisions_topic = decisions_topic
        self.lease = Lease(engine)
        self.deltas = Deltas(engine, decisions_topic)
        self.cells = StoredCells(engine)
        self.cohorts = CountedCohorts(engine)
        self._published: tuple[int, int, Publication | None] = (0, 0, None)

    def read(
        self,
        query: Callable[Concatenate[sa.Connection, _P], _T],
        *args: _P.args,
        **named: _P.kwargs,
    ) -> _T:
        """Call a query with a connection and arguments in a transaction; return its answer."""
        with reading(self.engine) as connection:
            return query(connection, *args, **named)

    def commit(self, epoch: int, cycle: Cycle, stored_at: int) -> int | None:
        """Write all changes of a cycle in one fenced transaction; return the Snapshot's number.

        Returns:
            The number of the stored Snapshot; None where the cycle has none.

        Raises:
            FencedError: another evaluator has taken over, or the database has gone back in time;
                nothing was written.
        """
        with writing(self.engine) as connection:
            require_epoch(connection, epoch)
            require_folded(connection, cycle.folded)
            add_counts(connection, cycle.increments)
            move_cursors(connection, cycle.cursors)
            write_detection(connection, cycle.detection, stored_at)
            write_incidents(connection, cycle.incidents)
            write_probe_sets(connection, cycle.probes)
            add_cluster_days(connection, cycle.clusters)
            write_revisions(connection, cycle.weeks, stored_at)
            write_calendar(connection, cycle.calendar)
            if cycle.snapshot is None:
                return None
            body = cycle.body or encode(cycle.snapshot)
            number = _store_snapshot(connection, cycle.snapshot.watermark, body, stored_at)
            note_snapshot(connection, cycle.snapshot, number)
            shown = write_published(connection, cycle.snapshot, self._shown_by(epoch, number - 1))
        self._published = (epoch, number, shown)
        return number

    def _shown_by(self, epoch: int, number: int) -> Publication | None:
        """Return the content of the published tables if we wrote Snapshot ``number`` last.

        Other writers raise the epoch, and a restore brings older numbers back.
        """
        last_epoch, last_number, shown = self._published
        return shown if (last_epoch, last_number) == (epoch, number) else None


def _store_snapshot(
    connection: sa.Connection, watermark: int | None, body: bytes, stored_at: int
) -> int:
    """Store a Snapshot and return its number."""
    stored = connection.execute(
        bulk.parsed(
            "INSERT INTO snapshot (id, stored_at, watermark, body)"
            " SELECT COALESCE(MAX(id), 0) + 1, :stored_at, :watermark, :body FROM snapshot"
            " RETURNING id"
        ),
        {"stored_at": stored_at, "watermark": watermark, "body": body},
    )
    return int(stored.scalar_one())

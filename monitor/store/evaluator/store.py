"""The store as the evaluator uses it: lease, deltas in, counts and Snapshots out.

A cycle reads and computes outside any transaction and then writes in one short transaction that
begins with the fence of the lease, so two evaluators can never fold the same delta twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Counts, Int64s
from monitor.core.counts.coding import CodingHistory
from monitor.core.privacy.release_blocks import Span
from monitor.core.publish.snapshot import Snapshot, encode
from monitor.core.time import Grain
from monitor.errors import FencedError
from monitor.ports import Loss, PaneCounts, PaneUnits, Shard, StoredDelta
from monitor.store import bulk
from monitor.store import deltas as payload
from monitor.store.codings import require_eras
from monitor.store.database import database_now, reading, writing
from monitor.store.dictionary_rows import write_cells
from monitor.store.evaluator.pane_sums import add_counts, read_units
from monitor.store.evaluator.probe_sets import (
    ProbeSetsChange,
    StoredProbeSet,
    read_probe_sets,
    write_probe_sets,
)
from monitor.store.evaluator.published_tables import write_published
from monitor.store.evaluator.release_blocks import (
    ReleaseChange,
    StoredRelease,
    first_released,
    held_back_panes,
    read_release,
    released_panes,
    sum_held_back,
    sum_released,
    write_release,
)
from monitor.store.evaluator.stored_detection import (
    DetectionChange,
    FrozenCohort,
    StoredDetection,
    counted_cohort,
    counted_requests,
    first_counted,
    read_cohorts,
    read_detection,
    write_detection,
)
from monitor.store.evaluator.stored_incidents import (
    Acts,
    IncidentChange,
    StoredIncidents,
    note_snapshot,
    read_acts,
    read_standing,
    write_incidents,
)
from monitor.store.exclusions import excluded_spans, read_losses
from monitor.store.schema import delta, fold_cursor
from monitor.store.shard_rows import read_behind, read_statuses, read_watermark

ROLE = "evaluator"
_CHUNK = 5_000
_ANY = 1 << 40  # beyond every pane


@dataclass(frozen=True, slots=True)
class Cells:
    """Cell rows of the dictionary as columns."""

    ids: Int64s
    atoms: Int64s
    strata: Int64s
    versions: Int64s


@dataclass(frozen=True, slots=True)
class Cycle:
    """Changes that one evaluator cycle writes.

    Attributes:
        folded: last folded delta of each shard before, which the store must agree to.
        cursors: last folded delta of each shard that moved.
        increments: counts to add, by grain and pane.
        release: changes to what may be published.
        cells: coarse cells of the 5-minute grain, id -> (atom, version, stratum).
        detection: what the detectors consumed, and the state it moved them to.
        incidents: which were opened, changed or resolved.
        probes: states of declared probe sets.
        snapshot: to be stored and shown, or None when nothing changed.
    """

    folded: Mapping[Shard, int] = field(default_factory=dict)
    cursors: Mapping[Shard, int] = field(default_factory=dict)
    increments: Sequence[PaneCounts] = ()
    release: ReleaseChange = field(default_factory=ReleaseChange)
    cells: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    detection: DetectionChange = field(default_factory=DetectionChange)
    incidents: IncidentChange = field(default_factory=IncidentChange)
    probes: ProbeSetsChange = field(default_factory=ProbeSetsChange)
    snapshot: Snapshot | None = None


class EvaluatorStore:
    """Used by one evaluator thread."""

    def __init__(self, engine: sa.Engine, decisions_topic: str) -> None:
        self._engine = engine
        self.decisions_topic = decisions_topic

    def acquire(self, owner: str, lease: int) -> int | None:
        """Take or renew the lease; returns its epoch, or None while another holds it.

        Args:
            owner: name of this evaluator.
            lease: microseconds on the database's clock.
        """
        with writing(self._engine) as connection:
            now = database_now(connection)
            connection.execute(
                sa.text(
                    "INSERT INTO lease (role, epoch, owner, until) VALUES (:role, 0, NULL, 0)"
                    " ON CONFLICT DO NOTHING"
                ),
                {"role": ROLE},
            )
            epoch: int | None = connection.execute(
                sa.text(
                    "UPDATE lease SET until = :until, owner = :owner,"
                    " epoch = epoch + CASE WHEN owner = :owner THEN 0 ELSE 1 END"
                    " WHERE role = :role AND (owner IS NULL OR owner = :owner OR until < :now)"
                    " RETURNING epoch"
                ),
                {"role": ROLE, "owner": owner, "until": now + lease, "now": now},
            ).scalar()
        return epoch

    def renewed_ago(self, lease: int) -> int:
        """Microseconds since whoever evaluates last renewed the lease."""
        with reading(self._engine) as connection:
            until = connection.execute(
                sa.text("SELECT until FROM lease WHERE role = :role"), {"role": ROLE}
            ).scalar()
            return database_now(connection) - ((until or 0) - lease)

    def release_lease(self, owner: str) -> None:
        """Give the lease back, so that another evaluator need not wait for its end."""
        with writing(self._engine) as connection:
            connection.execute(
                sa.text("UPDATE lease SET owner = NULL WHERE role = :role AND owner = :owner"),
                {"role": ROLE, "owner": owner},
            )

    def require_eras(self, eras: CodingHistory) -> None:
        """Raise OutdatedError unless decisions are coded by these eras."""
        with reading(self._engine) as connection:
            require_eras(connection, eras)

    def cursors(self) -> dict[Shard, int]:
        """Last folded delta of each shard."""
        with reading(self._engine) as connection:
            return _read_cursors(connection)

    def deltas(self, cursors: Mapping[Shard, int], limit: int) -> list[StoredDelta]:
        """Deltas after the cursors, each shard's in order; at most ``limit``."""
        found: list[StoredDelta] = []
        for status in read_statuses(self._engine):
            seen = cursors.get(status.shard, 0)
            if status.seq > seen and len(found) < limit:
                found.extend(self._deltas_of(status.shard, seen, limit - len(found)))
        return found

    def _deltas_of(self, shard: Shard, seen: int, limit: int) -> Iterable[StoredDelta]:
        with reading(self._engine) as connection:
            rows = connection.execute(
                sa.select(delta.c.seq, delta.c.payload)
                .where(
                    delta.c.topic == shard.topic,
                    delta.c.part == shard.partition,
                    delta.c.seq > seen,
                )
                .order_by(delta.c.seq)
                .limit(limit)
            ).all()
        for row in rows:
            body = payload.decode(row.payload)
            counts = body.panes, body.cells, body.values
            yield StoredDelta(shard, row.seq, *counts, body.units, body.probes)

    def watermark(self) -> int | None:
        """Event time the decisions are complete to."""
        with reading(self._engine) as connection:
            return read_watermark(connection, self.decisions_topic)

    def progress(self, folded: Mapping[Shard, int]) -> tuple[int | None, tuple[Loss, ...]]:
        """The watermark, and what was lost on the way.

        Raises:
            FencedError: what the store says was folded is not what the evaluator knows.
        """
        with reading(self._engine) as connection:
            _require_folded(connection, folded)
            watermark = read_watermark(connection, self.decisions_topic)
            return watermark, read_losses(connection)

    def labels_read_to(self) -> int | None:
        """Event time that the slowest label shard has reached; None if none is waited for."""
        with reading(self._engine) as connection:
            return read_behind(connection, self.decisions_topic)

    def release_state(self) -> StoredRelease:
        """State of the release so far, but for its counts."""
        with reading(self._engine) as connection:
            return read_release(connection)

    def sum_released(self, grain: Grain, first: int, end: int) -> Counts:
        """Closed counts of the panes ``first`` to ``end`` (exclusive), added up by cell."""
        with reading(self._engine) as connection:
            return sum_released(connection, grain, first, end)

    def sum_held_back(self, first: int, end: int) -> Counts:
        """Held-back counts of the hours ``first`` to ``end`` (exclusive), added up by cell."""
        with reading(self._engine) as connection:
            return sum_held_back(connection, first, end)

    def released_panes(self, grain: Grain, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Pane, cell and counters of every row of the panes ``first`` to ``end`` (exclusive)."""
        with reading(self._engine) as connection:
            return released_panes(connection, grain, first, end)

    def units(self, grain: Grain, first: int, end: int) -> PaneUnits:
        """Closed decisions by unit of the panes ``first`` to ``end`` (exclusive)."""
        with reading(self._engine) as connection:
            return read_units(connection, grain, first, end)

    def late_units(self) -> PaneUnits:
        """Decisions by unit of everything that is held back, by hour."""
        with reading(self._engine) as connection:
            return read_units(connection, Grain.HOUR, -_ANY, _ANY, late=True)

    def held_back(self) -> tuple[Int64s, Int64s, Int64s]:
        """Hour, cell and counters of everything that is held back."""
        with reading(self._engine) as connection:
            return held_back_panes(connection)

    def excluded(self) -> tuple[Span, ...]:
        """Event time whose data are known to be bad."""
        with reading(self._engine) as connection:
            return excluded_spans(connection)

    def first_released(self) -> int | None:
        """The oldest closed hour that is kept."""
        with reading(self._engine) as connection:
            return first_released(connection)

    def detection_state(self) -> StoredDetection:
        """State of the detectors."""
        with reading(self._engine) as connection:
            return read_detection(connection)

    def standing_incidents(self) -> StoredIncidents:
        """Incidents that are not resolved."""
        with reading(self._engine) as connection:
            return read_standing(connection)

    def incident_acts(self) -> Acts:
        """Acts of people on the incidents that are not resolved."""
        with reading(self._engine) as connection:
            return read_acts(connection)

    def probe_sets(self) -> dict[str, StoredProbeSet]:
        """States of probe sets, by name."""
        with reading(self._engine) as connection:
            return read_probe_sets(connection)

    def counted_cohort(self, hour: int, *, live: bool) -> FrozenCohort:
        """The cohort of an hour as it is counted now."""
        with reading(self._engine) as connection:
            return counted_cohort(connection, hour, live=live)

    def first_counted(self) -> int | None:
        """The oldest hour that anything is counted of."""
        with reading(self._engine) as connection:
            return first_counted(connection)

    def counted_requests(self, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Hour, cell, and decisions and requests of the hours ``first`` to ``end`` (exclusive)."""
        with reading(self._engine) as connection:
            return counted_requests(connection, first, end)

    def frozen_cohorts(self, first: int, end: int) -> list[FrozenCohort]:
        """Cohorts of the hours ``first`` to ``end`` (exclusive), as they were consumed."""
        with reading(self._engine) as connection:
            return list(read_cohorts(connection, first, end))

    def cohorts(self, first: int) -> Iterable[tuple[int, int, int, int]]:
        """(hour, cell, requested, received) of every hour from ``first`` on."""
        query = (
            "SELECT pane, cell, q, labelled + undecidable FROM counts"
            " WHERE grain = :grain AND pane >= :first"
            " AND (q <> 0 OR labelled <> 0 OR undecidable <> 0)"
        )
        with reading(self._engine) as connection:
            rows = connection.execute(
                sa.text(query), {"grain": int(Grain.HOUR), "first": first}
            ).all()
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def cells(self, ids: Sequence[int] | None = None) -> Cells:
        """Cell rows: all of them, or those with the given ids."""
        chunks = (
            [None] if ids is None else [ids[i : i + _CHUNK] for i in range(0, len(ids), _CHUNK)]
        )
        rows: list[tuple[int, ...]] = []
        with reading(self._engine) as connection:
            for chunk in chunks:
                query = "SELECT id, atom, stratum, version FROM cell"
                if chunk is not None:
                    query += f" WHERE id IN ({','.join(map(str, chunk))})"
                rows.extend(tuple(row) for row in connection.exec_driver_sql(query))
        return Cells(*np.array(rows, np.int64).reshape(len(rows), 4).T)

    def atom_texts(self) -> dict[int, str]:
        """Canonical text of every atom."""
        with reading(self._engine) as connection:
            rows = connection.execute(sa.text("SELECT id, text FROM atom")).all()
        return {row.id: row.text for row in rows}

    def snapshot(self) -> bytes | None:
        """The newest stored Snapshot."""
        with reading(self._engine) as connection:
            body: bytes | None = connection.execute(
                sa.text("SELECT body FROM snapshot ORDER BY id DESC LIMIT 1")
            ).scalar()
        return body

    def commit(self, epoch: int, cycle: Cycle, stored_at: int) -> int | None:
        """Write one cycle.

        Returns:
            The number of the Snapshot that it stored; None where it stored none.

        Raises:
            FencedError: another evaluator has taken over, or the database has gone back in time;
                nothing was written.
        """
        with writing(self._engine) as connection:
            fence = connection.execute(
                sa.text("UPDATE lease SET epoch = epoch WHERE role = :role AND epoch = :epoch"),
                {"role": ROLE, "epoch": epoch},
            )
            if fence.rowcount != 1:
                raise FencedError(ROLE)
            _require_folded(connection, cycle.folded)
            write_cells(connection, cycle.cells)
            add_counts(connection, cycle.increments)
            write_release(connection, cycle.release)
            _move_cursors(connection, cycle.cursors)
            write_detection(connection, cycle.detection, stored_at)
            write_incidents(connection, cycle.incidents)
            write_probe_sets(connection, cycle.probes)
            if cycle.snapshot is None:
                return None
            number = _store_snapshot(connection, cycle.snapshot, stored_at)
            note_snapshot(connection, cycle.snapshot, number)
            write_published(connection, cycle.snapshot)
            return number


def _read_cursors(connection: sa.Connection) -> dict[Shard, int]:
    rows = connection.execute(sa.select(fold_cursor)).all()
    return {Shard(row.topic, row.part): row.seq for row in rows}


def _require_folded(connection: sa.Connection, folded: Mapping[Shard, int]) -> None:
    """The other half of the fence: the epoch alone is the same after a restore."""
    if _read_cursors(connection) != folded:
        raise FencedError(ROLE)


def _move_cursors(connection: sa.Connection, cursors: Mapping[Shard, int]) -> None:
    shards = sorted(cursors)
    columns: bulk.Columns = {
        "topic": [shard.topic for shard in shards],
        "part": [shard.partition for shard in shards],
        "seq": [cursors[shard] for shard in shards],
    }
    bulk.insert(connection, fold_cursor, columns, "(topic, part) DO UPDATE SET seq = excluded.seq")


def _store_snapshot(connection: sa.Connection, snapshot: Snapshot, stored_at: int) -> int:
    """Returns its number."""
    stored = connection.execute(
        sa.text(
            "INSERT INTO snapshot (id, stored_at, watermark, body)"
            " SELECT COALESCE(MAX(id), 0) + 1, :stored_at, :watermark, :body FROM snapshot"
            " RETURNING id"
        ),
        {"stored_at": stored_at, "watermark": snapshot.watermark, "body": encode(snapshot)},
    )
    return int(stored.scalar_one())

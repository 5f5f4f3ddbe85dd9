"""Deltas to be folded, and how far each shard's are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from monitor.errors import FencedError
from monitor.ports import Loss, Shard, StoredDelta
from monitor.store import bulk
from monitor.store import deltas as payload
from monitor.store.database import reading
from monitor.store.evaluator.lease import ROLE
from monitor.store.exclusions import read_losses
from monitor.store.schema import delta, fold_cursor
from monitor.store.shard_rows import read_behind, read_statuses, read_watermark


class Deltas:
    """Deltas of all shards in their order."""

    def __init__(self, engine: sa.Engine, decisions_topic: str) -> None:
        self._engine = engine
        self._decisions_topic = decisions_topic

    def cursors(self) -> dict[Shard, int]:
        """Last folded delta of each shard."""
        with reading(self._engine) as connection:
            return _read_cursors(connection)

    def after(self, cursors: Mapping[Shard, int], limit: int) -> list[StoredDelta]:
        """Deltas after the cursors, each shard's in order; at most ``limit``."""
        found: list[StoredDelta] = []
        for status in read_statuses(self._engine):
            seen = cursors.get(status.shard, 0)
            if status.seq > seen and len(found) < limit:
                found.extend(self._of(status.shard, seen, limit - len(found)))
        return found

    def _of(self, shard: Shard, seen: int, limit: int) -> Iterable[StoredDelta]:
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
            yield StoredDelta(
                shard,
                row.seq,
                body.panes,
                body.cells,
                body.values,
                body.units,
                body.probes,
                body.sizes,
                body.repetition,
            )

    def watermark(self) -> int | None:
        """Event time the decisions are complete to."""
        with reading(self._engine) as connection:
            return read_watermark(connection, self._decisions_topic)

    def progress(self, folded: Mapping[Shard, int]) -> tuple[int | None, tuple[Loss, ...]]:
        """The watermark, and what was lost on the way.

        Raises:
            FencedError: what the store says was folded is not what the evaluator knows.
        """
        with reading(self._engine) as connection:
            require_folded(connection, folded)
            watermark = read_watermark(connection, self._decisions_topic)
            return watermark, read_losses(connection)

    def labels_read_to(self) -> int | None:
        """Event time that the slowest label shard has reached; None if none is waited for."""
        with reading(self._engine) as connection:
            return read_behind(connection, self._decisions_topic)


def _read_cursors(connection: sa.Connection) -> dict[Shard, int]:
    rows = connection.execute(sa.select(fold_cursor)).all()
    return {Shard(row.topic, row.part): row.seq for row in rows}


def require_folded(connection: sa.Connection, folded: Mapping[Shard, int]) -> None:
    """The other half of the fence: the epoch alone is the same after a restore.

    Raises:
        FencedError: the store says that other deltas were folded.
    """
    if _read_cursors(connection) != folded:
        raise FencedError(ROLE)


def move_cursors(connection: sa.Connection, cursors: Mapping[Shard, int]) -> None:
    """Set the last folded delta of some shards."""
    shards = sorted(cursors)
    columns: bulk.Columns = {
        "topic": [shard.topic for shard in shards],
        "part": [shard.partition for shard in shards],
        "seq": [cursors[shard] for shard in shards],
    }
    bulk.insert(connection, fold_cursor, columns, "(topic, part) DO UPDATE SET seq = excluded.seq")

"""Deltas to be folded, and how far each shard's are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from monitor.errors import FencedError
from monitor.ports import Loss, Shard, ShardStatus, StoredDelta
from monitor.store import bulk
from monitor.store import deltas as payload
from monitor.store.database import reading
from monitor.store.evaluator.lease import ROLE
from monitor.store.exclusions import read_losses
from monitor.store.schema import delta, fold_cursor
from monitor.store.shard_rows import behind_of, list_statuses, read_watermark, watermark_of

_CURSORS = sa.select(fold_cursor)
_NEXT = (
    sa.select(delta.c.seq, delta.c.payload)
    .where(
        delta.c.topic == sa.bindparam("topic"),
        delta.c.part == sa.bindparam("part"),
        delta.c.seq > sa.bindparam("seen"),
    )
    .order_by(delta.c.seq)
    .limit(sa.bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class News:
    """What shards have stored, and how far they are.

    Attributes:
        watermark: event time the decisions are complete to; None while nothing is known.
        labels_read_to: event time that the slowest label shard has reached; None if none is
            waited for.
        losses: what was lost on the way.
        deltas: not folded yet, each shard's in order.
    """

    watermark: int | None
    labels_read_to: int | None
    losses: tuple[Loss, ...]
    deltas: list[StoredDelta]


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
        with reading(self._engine) as connection:
            return _read_after(connection, list_statuses(connection), cursors, limit)

    def news(self, folded: Mapping[Shard, int], limit: int) -> News:
        """Whatever the shards have stored beyond what was folded; at most ``limit`` deltas.

        Raises:
            FencedError: what the store says was folded is not what the evaluator knows.
        """
        topic = self._decisions_topic
        with reading(self._engine) as connection:
            require_folded(connection, folded)
            losses, statuses = read_losses(connection), list_statuses(connection)
            # After the watermarks: they promise no more than the deltas have.
            deltas = _read_after(connection, statuses, folded, limit)
        return News(watermark_of(statuses, topic), behind_of(statuses, topic), losses, deltas)

    def watermark(self) -> int | None:
        """Event time the decisions are complete to."""
        with reading(self._engine) as connection:
            return read_watermark(connection, self._decisions_topic)


def _read_after(
    connection: sa.Connection,
    statuses: Iterable[ShardStatus],
    cursors: Mapping[Shard, int],
    limit: int,
) -> list[StoredDelta]:
    found: list[StoredDelta] = []
    for status in statuses:
        seen = cursors.get(status.shard, 0)
        if status.seq > seen and len(found) < limit:
            found.extend(_read_deltas(connection, status.shard, seen, limit - len(found)))
    return found


def _read_deltas(
    connection: sa.Connection, shard: Shard, seen: int, limit: int
) -> Iterator[StoredDelta]:
    one = {"topic": shard.topic, "part": shard.partition, "seen": seen, "most": limit}
    for row in connection.execute(_NEXT, one).all():
        body = payload.decode(row.payload)
        yield StoredDelta(
            shard,
            row.seq,
            body.panes,
            body.cells,
            body.values,
            body.probes,
            body.sizes,
            body.repetition,
        )


def _read_cursors(connection: sa.Connection) -> dict[Shard, int]:
    rows = connection.execute(_CURSORS).all()
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

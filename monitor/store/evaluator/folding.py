"""Deltas to be folded, and how far each shard's are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import sqlalchemy as sa

from monitor.core.time import TimeSpan
from monitor.errors import FencedError
from monitor.records import Shard
from monitor.shard_status import ShardStatus
from monitor.store import bulk
from monitor.store.database import reading
from monitor.store.deltas import StoredDelta, decode
from monitor.store.evaluator.lease import ROLE
from monitor.store.evaluator.stored_incidents import Acts, read_acts
from monitor.store.exclusions import Loss, excluded_spans, read_losses
from monitor.store.schema import delta, fold_cursor
from monitor.store.shard_rows import behind_of, list_statuses, read_watermark, watermark_of

_CURSORS = sa.select(fold_cursor)
_NO_KEYS = np.empty(0, np.int64)
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
    """Deltas to fold, and the progress and losses of the shards that stored them.

    Attributes:
        watermark: event time up to which decisions are complete; None while unknown.
        labels_read_to: event time of the slowest awaited label shard; None if none is awaited.
        losses: gaps of event time that the shards skipped.
        deltas: deltas to fold, in order within each shard.
        excluded: event time of data that people declared bad.
        acts: what people did to incidents.
    """

    watermark: int | None
    labels_read_to: int | None
    losses: tuple[Loss, ...]
    deltas: list[StoredDelta]
    excluded: tuple[TimeSpan, ...]
    acts: Acts


class Deltas:
    """Reader of the stored deltas of all shards, in their order, for the evaluator."""

    def __init__(self, engine: sa.Engine, decisions_topic: str) -> None:
        self._engine = engine
        self._decisions_topic = decisions_topic

    def cursors(self) -> dict[Shard, int]:
        """Return the sequence number of the last folded delta of each shard."""
        with reading(self._engine) as connection:
            return _read_cursors(connection)

    def after(self, cursors: Mapping[Shard, int], limit: int) -> list[StoredDelta]:
        """Return at most ``limit`` deltas after the cursors, in order within each shard."""
        with reading(self._engine) as connection:
            return _read_after(connection, list_statuses(connection), cursors, limit)

    def news(self, folded: Mapping[Shard, int], limit: int) -> News:
        """Return at most ``limit`` deltas beyond the folded ones, and all else that a cycle reads.

        Raises:
            FencedError: the store has other folded deltas than the evaluator knows.
        """
        topic = self._decisions_topic
        with reading(self._engine) as connection:
            require_folded(connection, folded)
            losses, statuses = read_losses(connection), list_statuses(connection)
            # Deltas are read after the watermarks, so they contain all that these promise.
            deltas = _read_after(connection, statuses, folded, limit)
            excluded, acts = excluded_spans(connection), read_acts(connection)
        watermark, read_to = watermark_of(statuses, topic), behind_of(statuses, topic)
        return News(watermark, read_to, losses, deltas, excluded, acts)

    def watermark(self) -> int | None:
        """Return the event time up to which decisions are complete; None while unknown."""
        with reading(self._engine) as connection:
            return read_watermark(connection, self._decisions_topic)


def _read_after(
    connection: sa.Connection,
    statuses: Iterable[ShardStatus],
    cursors: Mapping[Shard, int],
    limit: int,
) -> list[StoredDelta]:
    """Return at most ``limit`` deltas that follow the cursors, shard by shard."""
    deltas: list[StoredDelta] = []
    for status in statuses:
        last_seq = cursors.get(status.shard, 0)
        if status.seq > last_seq and len(deltas) < limit:
            deltas.extend(_read_deltas(connection, status.shard, last_seq, limit - len(deltas)))
    return deltas


def _read_deltas(
    connection: sa.Connection, shard: Shard, last_seq: int, limit: int
) -> Iterator[StoredDelta]:
    parameters = {"topic": shard.topic, "part": shard.partition, "seen": last_seq, "most": limit}
    for row in connection.execute(_NEXT, parameters).all():
        # The evaluator needs no keys; they would fill its memory while it catches up.
        payload = replace(decode(row.payload), keys=_NO_KEYS, arrivals=_NO_KEYS)
        yield StoredDelta(shard, row.seq, payload)


def _read_cursors(connection: sa.Connection) -> dict[Shard, int]:
    rows = connection.execute(_CURSORS).all()
    return {Shard(row.topic, row.part): row.seq for row in rows}


def require_folded(connection: sa.Connection, folded: Mapping[Shard, int]) -> None:
    """Refuse unless the store's last folded delta of each shard is the given one.

    Raises:
        FencedError: the store has other folded deltas.
    """
    if _read_cursors(connection) != folded:
        raise FencedError(ROLE)


def move_cursors(connection: sa.Connection, cursors: Mapping[Shard, int]) -> None:
    """Store the sequence number of the last folded delta of each given shard."""
    rows = [(shard.topic, shard.partition, seq) for shard, seq in sorted(cursors.items())]
    columns = bulk.by_column(fold_cursor, rows)
    bulk.insert(connection, fold_cursor, columns, bulk.replacing(fold_cursor))

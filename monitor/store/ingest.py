"""The store as ingest workers use it: claim shards, flush exactly once.

Offsets live in the same transaction as their effects. A flush begins with the fence: the row of
``ownership`` must still have our epoch and the offset we started from. Kafka's own committed
offsets decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import sqlalchemy as sa

from monitor.core.cells import COUNTERS, Counter, Counts, Int64s, Route
from monitor.core.time import Grain, pane_of
from monitor.errors import DataLossError, FencedError
from monitor.ports import (
    Claim,
    Clock,
    DecisionColumns,
    Dictionary,
    FlushResult,
    Request,
    Shard,
    ShardFlush,
    ShardStatus,
    Tallies,
)
from monitor.store import payload
from monitor.store.database import reading, writing
from monitor.store.dictionary import write_dictionary
from monitor.store.join import join
from monitor.store.schema import delta, ownership
from monitor.store.shards import read_statuses, read_watermark

MAX_DEAD_LETTERS = 1_000
"""Dead letters stored for one shard and flush; beyond it they are counted only."""

_NONE = np.empty(0, np.int64)


class IngestStore:
    """Claims and flushes; one per worker process, used from one thread."""

    def __init__(self, engine: sa.Engine, decisions_topic: str, clock: Clock) -> None:
        self._engine = engine
        self._decisions_topic = decisions_topic
        self._clock = clock
        self._known: set[int] = set()

    def register(self, shards: Sequence[Shard], topic_ids: dict[str, str | None]) -> None:
        """Make a row for every partition, so that one nobody owns holds the watermark back."""
        with writing(self._engine) as connection:
            _make_rows(connection, shards, topic_ids)
            for topic, topic_id in topic_ids.items():
                _check_topic_id(connection, topic, topic_id)
                connection.execute(
                    sa.update(ownership)
                    .where(ownership.c.topic == topic, ownership.c.topic_id.is_(None))
                    .values(topic_id=topic_id)
                )

    def claim(self, shards: Sequence[Shard], owner: str) -> list[Claim]:
        """Take shards over: whoever had them can flush no more."""
        claims = []
        with writing(self._engine) as connection:
            _make_rows(connection, shards, {})  # a partition may have been added since
            for shard in sorted(shards):
                row = connection.execute(
                    sa.update(ownership)
                    .where(ownership.c.topic == shard.topic, ownership.c.part == shard.partition)
                    .values(epoch=ownership.c.epoch + 1, owner=owner, holds_back=True)
                    .returning(*ownership.c)
                ).one()
                claims.append(
                    Claim(
                        shard=shard,
                        epoch=row.epoch,
                        next_offset=row.next_offset,
                        start_offset=row.start_offset,
                        seq=row.seq,
                        max_decided_at=row.max_decided_at,
                        watermark=row.watermark,
                        tallies=msgspec.json.decode(row.tallies, type=Tallies),
                    )
                )
        return claims

    def start(self, claim: Claim, offset: int) -> None:
        """Store the first position of a shard that was never read."""
        with writing(self._engine) as connection:
            result = connection.execute(
                sa.update(ownership)
                .where(_is(claim.shard), ownership.c.epoch == claim.epoch)
                .values(start_offset=offset, next_offset=offset)
            )
            if result.rowcount != 1:
                raise FencedError(claim.shard)

    def duplicate_keys(self, shard: Shard, since_minute: int) -> tuple[Int64s, Int64s]:
        """Keys (and arrival minutes) of the decisions that arrived since a minute."""
        with reading(self._engine) as connection:
            rows = connection.execute(
                sa.select(delta.c.payload).where(
                    delta.c.topic == shard.topic,
                    delta.c.part == shard.partition,
                    delta.c.arrived >= since_minute,
                )
            ).scalars()
            parts = [payload.decode(row) for row in rows]
        keys = np.concatenate([_NONE, *(part.keys for part in parts)])
        arrivals = np.concatenate([_NONE, *(part.arrivals for part in parts)])
        fresh = arrivals >= since_minute
        return keys[fresh], arrivals[fresh]

    def statuses(self) -> list[ShardStatus]:
        """All shards, whoever owns them."""
        return read_statuses(self._engine)

    def flush(self, flushes: Sequence[ShardFlush], dictionary: Dictionary) -> FlushResult:
        """Write everything of one flush in one transaction.

        Raises:
            FencedError: a shard is not ours any more; nothing was written.
            StoreError: the database cannot be written; nothing is known, claim again.
        """
        ordered = sorted(flushes, key=lambda f: f.shard)
        delays: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = [np.empty(0)]
        with writing(self._engine) as connection:
            for flush in ordered:
                _pass_fence(connection, flush)
            fresh = self._unknown(dictionary)
            write_dictionary(connection, fresh)
            for flush in ordered:
                if flush.decisions is not None:
                    _write_pending(connection, flush.decisions, flush.tallies)
            watermark = read_watermark(connection, self._decisions_topic)
            for flush in ordered:
                delays.append(self._write_effects(connection, flush, watermark))
        self._known.update(fresh.atoms, fresh.versions, fresh.cells)
        return FlushResult({f.shard: f.tallies for f in ordered}, np.concatenate(delays))

    def _write_effects(
        self, connection: sa.Connection, flush: ShardFlush, watermark: int | None
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        delays = np.empty(0)
        if flush.labels is not None:
            joined = join(connection, flush.shard, flush.labels, watermark)
            joined.settle(flush.tallies)
            delays = joined.delays
            body = payload.Payload(joined.panes, joined.cells, joined.values, _NONE, _NONE)
            _write_delta(connection, flush, summed(body))
        elif flush.decisions is not None:
            _write_delta(connection, flush, decision_payload(flush.decisions))
        _write_dead_letters(connection, flush, self._clock.now())
        _write_tallies(connection, flush)
        return delays

    def _unknown(self, dictionary: Dictionary) -> Dictionary:
        return Dictionary(
            {k: v for k, v in dictionary.atoms.items() if k not in self._known},
            {k: v for k, v in dictionary.versions.items() if k not in self._known},
            {k: v for k, v in dictionary.cells.items() if k not in self._known},
        )


def _is(shard: Shard) -> sa.ColumnElement[bool]:
    return sa.and_(ownership.c.topic == shard.topic, ownership.c.part == shard.partition)


def _make_rows(
    connection: sa.Connection, shards: Sequence[Shard], topic_ids: Mapping[str, str | None]
) -> None:
    rows = [
        {
            "topic": shard.topic,
            "part": shard.partition,
            "topic_id": topic_ids.get(shard.topic),
            "holds_back": True,
        }
        for shard in shards
    ]
    query = (
        "INSERT INTO ownership (topic, part, topic_id, epoch, seq, holds_back, tallies)"
        " VALUES (:topic, :part, :topic_id, 0, 0, :holds_back, '{}') ON CONFLICT DO NOTHING"
    )
    if rows:
        connection.execute(sa.text(query), rows)


def _check_topic_id(connection: sa.Connection, topic: str, topic_id: str | None) -> None:
    stored = connection.execute(
        sa.select(ownership.c.topic_id).where(
            ownership.c.topic == topic, ownership.c.topic_id.is_not(None)
        )
    ).scalar()
    if topic_id is not None and stored is not None and stored != topic_id:
        raise DataLossError(
            f"topic {topic} was deleted and created again since it was last read; its stored"
            " positions mean nothing in the new topic. To go on, give every partition an offset:"
            f" slicewatch db resume-from {topic} PARTITION OFFSET --reason TEXT"
        )


def _pass_fence(connection: sa.Connection, flush: ShardFlush) -> None:
    """The first statement of a shard: nobody else has claimed it and nothing was skipped."""
    result = connection.execute(
        sa.text(
            "UPDATE ownership SET next_offset = :next WHERE topic = :topic AND part = :part"
            " AND epoch = :epoch AND next_offset = :expected"
        ),
        {
            "next": flush.next_offset,
            "topic": flush.shard.topic,
            "part": flush.shard.partition,
            "epoch": flush.epoch,
            "expected": flush.expected_offset,
        },
    )
    if result.rowcount != 1:
        raise FencedError(flush.shard)


def _write_pending(connection: sa.Connection, decisions: DecisionColumns, tallies: Tallies) -> None:
    """Insert only, never changed; a row that is there already is a repeated id."""
    hours = pane_of(decisions.ts, Grain.HOUR)
    asked = decisions.request != Request.NONE
    # One statement for each route, so that repeated requests are counted by route.
    kind = np.where(asked, decisions.routes, -1)
    for route in np.unique(kind[decisions.pending]).tolist():
        rows = np.flatnonzero(decisions.pending & (kind == route))
        rows = rows[np.lexsort((decisions.ids[rows], hours[rows]))]
        columns = (hours, decisions.ids, decisions.ts, decisions.cells, decisions.request)
        inserted = _insert_pending(connection, [column[rows].tolist() for column in columns])
        if route >= 0 and inserted < len(rows):
            name = Route(route).name.lower()
            tallies.repeated[name] = tallies.repeated.get(name, 0) + len(rows) - inserted


def _insert_pending(connection: sa.Connection, columns: Sequence[list[int]]) -> int:
    rows = list(zip(*columns, strict=True))
    result = connection.exec_driver_sql(
        "INSERT INTO pending (hour, id, ts, cell, request) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        rows,
    )
    return result.rowcount


def decision_payload(decisions: DecisionColumns) -> payload.Payload:
    """The cell increments of counted decisions, summed by (pane, cell)."""
    values = np.zeros((len(decisions.ts), COUNTERS), np.int64)
    values[:, Counter.N] = 1
    values[:, Counter.Q] = decisions.request == Request.KEPT
    panes = pane_of(decisions.ts, Grain.MINUTES5)
    return summed(
        payload.Payload(panes, decisions.cells, values, decisions.keys, decisions.arrivals)
    )


def summed(body: payload.Payload) -> payload.Payload:
    """Add up rows of equal (pane, cell); rows that cancel out are dropped."""
    cells, cell_of = np.unique(body.cells, return_inverse=True)
    key = body.panes * max(len(cells), 1) + cell_of
    total = Counts.of(key, body.values)
    alive = total.values.any(axis=1)
    panes, positions = np.divmod(total.keys[alive], max(len(cells), 1))
    return payload.Payload(panes, cells[positions], total.values[alive], body.keys, body.arrivals)


def _write_delta(connection: sa.Connection, flush: ShardFlush, body: payload.Payload) -> None:
    """Append the delta; an empty one is not written, so the sequence stays gap-free."""
    if not len(body.panes) and not len(body.keys):
        return
    shard = {"topic": flush.shard.topic, "part": flush.shard.partition}
    seq = connection.execute(
        sa.text(
            "UPDATE ownership SET seq = seq + 1 WHERE topic = :topic AND part = :part RETURNING seq"
        ),
        shard,
    ).scalar_one()
    connection.execute(
        sa.insert(delta),
        {
            **shard,
            "seq": seq,
            "start_offset": flush.expected_offset,
            "next_offset": flush.next_offset,
            "arrived": int(body.arrivals.max()) if len(body.arrivals) else None,
            "payload": payload.encode(body),
        },
    )


def _write_dead_letters(connection: sa.Connection, flush: ShardFlush, now: int) -> None:
    rows = [
        {
            "topic": flush.shard.topic,
            "part": flush.shard.partition,
            "msg_offset": letter.offset,
            "item": letter.index,
            "reason": letter.reason,
            "field": letter.field,
            "payload_hash": letter.payload_hash,
            "seen_at": now,
        }
        for letter in flush.dead_letters[:MAX_DEAD_LETTERS]
    ]
    if rows:
        connection.execute(
            sa.text(
                "INSERT INTO dead_letter"
                " (topic, part, msg_offset, item, reason, field, payload_hash, seen_at) VALUES"
                " (:topic, :part, :msg_offset, :item, :reason, :field, :payload_hash, :seen_at)"
                " ON CONFLICT DO NOTHING"
            ),
            rows,
        )


def _write_tallies(connection: sa.Connection, flush: ShardFlush) -> None:
    connection.execute(
        sa.update(ownership)
        .where(_is(flush.shard))
        .values(
            max_decided_at=flush.max_decided_at,
            watermark=flush.watermark,
            holds_back=flush.holds_back,
            tallies=msgspec.json.encode(flush.tallies).decode(),
        )
    )

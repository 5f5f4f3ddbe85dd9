"""The store as ingest workers use it: claim shards, flush exactly once.

Offsets live in the same transaction as their effects. A flush begins with the fence: the row of
``ownership`` must still have our epoch, the offset we started from, and as many flushes. Kafka's
own committed offsets decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import CodingHistory
from monitor.core.time import DAY
from monitor.errors import FencedError
from monitor.flushes import Dictionary, FlushResult, ShardFlush
from monitor.id_key import NEAR, IdKey
from monitor.ports import Clock
from monitor.records import Shard
from monitor.shard_status import Claim, ShardStatus
from monitor.store import bulk, deltas
from monitor.store.bias_score_rows import write_bias_scores
from monitor.store.codings import lock_eras, require_eras
from monitor.store.database import database_now, reading, writing
from monitor.store.deltas import decision_payload, summed, write_delta
from monitor.store.dictionary_rows import live_versions, write_dictionary
from monitor.store.erasure import Deletions, read_deletions
from monitor.store.exclusions import close_loss, open_losses
from monitor.store.id_keys import require_keys
from monitor.store.ingest import decision_arrivals
from monitor.store.ingest.join import Matched, join, lock_states, match
from monitor.store.ingest.label_arrivals import add_arrivals
from monitor.store.ingest.pending import write_pending
from monitor.store.ingest.recent import RecentDecisions
from monitor.store.ingest.stored_decisions import StoredDecisions
from monitor.store.retired import require_in_use
from monitor.store.schema import dead_letter, delta, ownership
from monitor.store.shard_rows import (
    is_shard,
    park,
    read_newest,
    read_statuses,
    read_watermark,
    shard_record,
)

MAX_DEAD_LETTERS = 10_000
"""Dead letters kept per shard and day (UTC); more are only counted."""


def write_dead_letters(connection: sa.Connection, flush: ShardFlush, now: int) -> None:
    """Insert a flush's dead letters while there is room; add the rest to the tally ``unkept``.

    The shard must be fenced by this transaction: nobody else may add to it.
    """
    if not flush.dead_letters:
        return
    letters = flush.dead_letters[: _room_for_dead_letters(connection, flush.shard, now)]
    flush.tallies.unkept += len(flush.dead_letters) - len(letters)
    shard = (flush.shard.topic, flush.shard.partition)
    rows = [
        (*shard, letter.offset, letter.index, letter.reason, letter.field, letter.payload_hash, now)
        for letter in letters
    ]
    bulk.insert(connection, dead_letter, bulk.by_column(dead_letter, rows))


def _room_for_dead_letters(connection: sa.Connection, shard: Shard, now: int) -> int:
    """Return how many more dead letters of a shard may be kept today (UTC)."""
    kept = sa.select(sa.literal(1)).where(
        dead_letter.c.topic == shard.topic,
        dead_letter.c.part == shard.partition,
        dead_letter.c.seen_at >= now - now % DAY,
    )
    count = sa.select(sa.func.count()).select_from(kept.limit(MAX_DEAD_LETTERS).subquery())
    return MAX_DEAD_LETTERS - int(connection.execute(count).scalar_one())


MAX_KNOWN = 1 << 18
"""Dictionary rows that a worker remembers writing: at some 20 MB, it forgets all."""

FULL_SECONDS = 10.0
"""Interval of trying labels whose decisions would be newer than all stored ones.

All other labels are tried in every flush. While both topics are read from their beginning, labels
wait by the ten thousand."""

_NONE = np.empty(0, np.int64)


class IngestStore:
    """Access of an ingest worker to the store: claims and flushes; used from one thread."""

    def __init__(
        self,
        engine: sa.Engine,
        decisions_topic: str,
        clock: Clock,
        eras: CodingHistory | None = None,
        keys: Sequence[IdKey] | None = None,
    ) -> None:
        self._engine = engine
        self._eras = eras  # codings of decisions; None where none are coded
        self._keys = keys  # keys that ids are hashed with; None where none are hashed
        self._decisions_topic = decisions_topic
        self._clock = clock
        self._known: set[int] = set()
        self._recent = RecentDecisions()
        self._next_full: dict[Shard, float] = {}
        self._deletions = Deletions()  # as last read
        # Shards moved over a gap that have read no event since; set by a claim.
        self._after_gap: set[Shard] = set()

    def register(self, shards: Sequence[Shard]) -> None:
        """Insert missing rows of partitions: one without an owner must hold the watermark back.

        A partition that was added to a topic we know begins at its first offset.

        Raises:
            OutdatedError: the store was started with other topics since.
        """
        with writing(self._engine) as connection:
            _make_rows(connection, shards)

    def claim(
        self, shards: Sequence[Shard], owner: str, topic_ids: Mapping[str, str | None] = {}
    ) -> list[Claim]:
        """Take over shards for ``owner`` and return their claims.

        Args:
            shards: the shards to claim.
            owner: the new owner's name.
            topic_ids: present ids of the topics, stored for shards without a position or id. A
                claim returns the stored id, for the owner to compare.

        Raises:
            OutdatedError: the store was started with newer settings; nothing was claimed.
        """
        # A database that went back in time has lost dictionary rows along with our position.
        self._known.clear()
        self._recent.clear()
        self._next_full.clear()
        claims = []
        with writing(self._engine) as connection:
            now = database_now(connection)
            lock_eras(connection, shared=True)
            if self._eras is not None:
                require_eras(connection, self._eras)
            if self._keys is not None:
                require_keys(connection, self._keys)
            _make_rows(connection, shards)  # a partition may have been added since
            for shard in sorted(shards):
                row = connection.execute(
                    sa.update(ownership)
                    .where(is_shard(shard))
                    .values(
                        epoch=ownership.c.epoch + 1,
                        owner=owner,
                        holds_back=True,
                        seen_at=now,
                        unstored_since=None,
                        unread_since=sa.func.coalesce(ownership.c.unread_since, now),
                        topic_id=_kept_topic_id(topic_ids.get(shard.topic)),
                    )
                    .returning(*ownership.c)
                ).one()
                claims.append(shard_record(Claim, row))
            after_gap = open_losses(connection, shards)
        self._after_gap = (self._after_gap - set(shards)) | after_gap
        return claims

    def beat(
        self, epochs: Mapping[Shard, int], *, storing: bool, waiting: Mapping[Shard, bool]
    ) -> None:
        """Record, by the database's clock, that the owner of these shards is alive.

        Shards that somebody else has claimed since are skipped.

        Args:
            epochs: the owner's claims.
            storing: whether it can store what it reads.
            waiting: shards that it has not read to the end; True where it has read events since
                the last beat.
        """
        with writing(self._engine) as connection:
            now = database_now(connection)
            stopped = sa.func.coalesce(ownership.c.unstored_since, now)
            unread = sa.func.coalesce(ownership.c.unread_since, now)
            for shard, epoch in sorted(epochs.items()):
                since = {None: None, True: now, False: unread}[waiting.get(shard)]
                connection.execute(
                    sa.update(ownership)
                    .where(is_shard(shard), ownership.c.epoch == epoch)
                    .values(
                        seen_at=now, unstored_since=None if storing else stopped, unread_since=since
                    )
                )

    def park(self, shard: Shard, epoch: int, reason: str) -> None:
        """Record the reason why a shard of this worker is not read."""
        park(self._engine, shard, epoch, reason)

    def start(self, claim: Claim, offset: int) -> None:
        """Record the first offset of a claimed shard that was never read."""
        with writing(self._engine) as connection:
            result = connection.execute(
                sa.update(ownership)
                .where(is_shard(claim.shard), ownership.c.epoch == claim.epoch)
                .values(start_offset=offset, next_offset=offset)
            )
            if result.rowcount != 1:
                raise FencedError(claim.shard)

    def duplicate_keys(self, shard: Shard, since_minute: int) -> tuple[Int64s, Int64s]:
        """Return keys and arrival minutes of a shard's decisions that arrived since a minute."""
        with reading(self._engine) as connection:
            rows = connection.execute(
                sa.select(delta.c.payload).where(
                    delta.c.topic == shard.topic,
                    delta.c.part == shard.partition,
                    delta.c.arrived >= since_minute,
                )
            ).scalars()
            parts = [deltas.decode(row) for row in rows]
        keys = np.concatenate([_NONE, *(part.keys for part in parts)])
        arrivals = np.concatenate([_NONE, *(part.arrivals for part in parts)])
        fresh = arrivals >= since_minute
        return keys[fresh], arrivals[fresh]

    def statuses(self) -> list[ShardStatus]:
        """Return the status of all shards, whoever owns them."""
        return read_statuses(self._engine)

    def live_versions(self) -> list[str]:
        """Return the texts of version tuples that decisions of the kept hours have."""
        return live_versions(self._engine)

    def flush(self, flushes: Sequence[ShardFlush], dictionary: Dictionary) -> FlushResult:
        """Write the flushes of all shards in one transaction; return tallies and label delays.

        Raises:
            FencedError: a shard is not ours any more; nothing was written.
            StoreError: writing failed, or its outcome is unknown; claim again.
        """
        try:
            return self._flush(sorted(flushes, key=lambda f: f.shard), dictionary)
        except BaseException:
            self._recent.clear()  # it has rows that are not stored
            raise

    def _flush(self, ordered: Sequence[ShardFlush], dictionary: Dictionary) -> FlushResult:
        """Write these shards' flushes in one transaction: fences, decisions, labels, effects."""
        delays: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = [np.empty(0)]
        with writing(self._engine) as connection:
            for flush in ordered:
                _pass_fence(connection, flush)
            fresh = self._unknown(dictionary)
            write_dictionary(connection, fresh)
            deletions = self._refresh_deletions(connection, ordered)
            write_pending(connection, ordered, self._recent)
            watermark = read_watermark(connection, self._decisions_topic)
            stored = StoredDecisions(connection, self._recent, deletions.before, watermark)
            newest = self._newest_decided_at(connection, ordered)
            matched = [self._match(stored, flush, newest) for flush in ordered]
            lock_states(connection, matched)
            for flush, labels in zip(ordered, matched, strict=True):
                delays.append(self._write_effects(connection, flush, labels))
            gaps = [f for f in ordered if f.shard in self._after_gap]
            closed = {f.shard for f in gaps if close_loss(connection, f, self._clock.now())}
        self._after_gap -= closed
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        self._known.update(fresh.atoms, fresh.versions, fresh.cells)
        return FlushResult({f.shard: f.tallies for f in ordered}, np.concatenate(delays))

    def _refresh_deletions(
        self, connection: sa.Connection, flushes: Sequence[ShardFlush]
    ) -> Deletions:
        """Return the marks of deletions; clear the memory if a decision was forgotten."""
        if any(flush.labels is not None for flush in flushes):
            deletions = read_deletions(connection)
            if deletions.forgotten != self._deletions.forgotten:
                self._recent.clear()
            self._deletions = deletions
        return self._deletions

    def _newest_decided_at(
        self, connection: sa.Connection, flushes: Sequence[ShardFlush]
    ) -> int | None:
        """Return the newest decided_at in the store or in these flushes, or None."""
        flushed = [f.max_decided_at for f in flushes if f.shard.topic == self._decisions_topic]
        newest_times = [*flushed, read_newest(connection, self._decisions_topic)]
        return max((at for at in newest_times if at is not None), default=None)

    def _match(
        self, stored: StoredDecisions, flush: ShardFlush, newest: int | None
    ) -> Matched | None:
        """Look for the decisions of a flush's labels; None for a flush without labels."""
        if flush.labels is None:
            return None
        now = self._clock.monotonic()
        reached = None if newest is None else newest + NEAR
        # A time may be inexact, and a clock that was set back is behind its own decisions.
        if now >= self._next_full.get(flush.shard, now) or not flush.holds_back:
            self._next_full[flush.shard] = now + FULL_SECONDS
            reached = None
        return match(stored, flush.shard, flush.labels, flush.other_ids, reached)

    def _write_effects(
        self, connection: sa.Connection, flush: ShardFlush, labels: Matched | None
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Write all that a flush adds, from its delta to its tallies; return its labels' delays.

        Without labels the delays are empty. Arrivals, results of evaluations and dead letters are
        written, too.
        """
        delays, now = np.empty(0), self._clock.now()
        if labels is not None:
            joined = join(connection, labels)
            joined.add_to(flush.tallies)
            delays = joined.delays
            body = deltas.Payload(joined.panes, joined.cells, joined.values, _NONE, _NONE)
            write_delta(connection, flush, summed(body))
        elif flush.decisions is not None:
            body = decision_payload(flush.decisions, flush.probes, flush.repetition)
            write_delta(connection, flush, body)
        if flush.labels is not None:
            add_arrivals(connection, flush.shard, flush.labels)
        decision_arrivals.add_arrivals(connection, flush.shard, flush.arrivals)
        write_bias_scores(connection, flush.results)
        write_dead_letters(connection, flush, now)
        _write_tallies(connection, flush, now)
        return delays

    def _unknown(self, dictionary: Dictionary) -> Dictionary:
        """Return the entries of the dictionary that this worker has not stored yet."""
        return Dictionary(
            {k: v for k, v in dictionary.atoms.items() if k not in self._known},
            {k: v for k, v in dictionary.versions.items() if k not in self._known},
            {k: v for k, v in dictionary.cells.items() if k not in self._known},
        )


def _kept_topic_id(present: str | None) -> sa.ColumnElement[str | None]:
    """Return the SQL of a shard's topic id: the present one without an offset or stored id."""
    kept = sa.func.coalesce(ownership.c.topic_id, present)
    return sa.case((ownership.c.next_offset.is_(None), present), else_=kept)


def _make_rows(connection: sa.Connection, shards: Sequence[Shard]) -> None:
    """Insert missing rows of shards; partitions added to a known topic begin at offset 0.

    Raises OutdatedError where a topic is retired.
    """
    require_in_use(connection, shards)
    topics = {shard.topic for shard in shards}
    known_topics = connection.execute(
        sa.select(ownership.c.topic).where(ownership.c.topic.in_(topics)).distinct()
    )
    first = dict.fromkeys(known_topics.scalars(), 0)
    rows = [
        {
            "topic": shard.topic,
            "part": shard.partition,
            "holds_back": True,
            "first": first.get(shard.topic),
        }
        for shard in shards
    ]
    query = (
        "INSERT INTO ownership"
        " (topic, part, epoch, seq, start_offset, next_offset, holds_back, tallies)"
        " VALUES (:topic, :part, 0, 0, :first, :first, :holds_back, '{}') ON CONFLICT DO NOTHING"
    )
    if rows:
        connection.execute(sa.text(query), rows)


def _pass_fence(connection: sa.Connection, flush: ShardFlush) -> None:
    """Move a shard to the flush's next offset; raise FencedError if anything else moved it."""
    result = connection.execute(
        bulk.parsed(
            "UPDATE ownership SET next_offset = :next, flushes = flushes + 1"
            " WHERE topic = :topic AND part = :part AND epoch = :epoch AND next_offset = :expected"
            " AND flushes = COALESCE(CAST(:flushes AS BIGINT), flushes)"
        ),
        {
            "next": flush.next_offset,
            "topic": flush.shard.topic,
            "part": flush.shard.partition,
            "epoch": flush.epoch,
            "expected": flush.expected_offset,
            "flushes": flush.flushes,
        },
    )
    if result.rowcount != 1:
        raise FencedError(flush.shard)


def _write_tallies(connection: sa.Connection, flush: ShardFlush, now: int) -> None:
    """Store watermark, newest decision and tallies of the flush's shard."""
    connection.execute(
        bulk.parsed(
            "UPDATE ownership SET max_decided_at = :newest, watermark = :watermark,"
            " holds_back = :holds_back, tallies = :tallies, flushed_at = :now"
            " WHERE topic = :topic AND part = :part"
        ),
        {
            "newest": flush.max_decided_at,
            "watermark": flush.watermark,
            "holds_back": flush.holds_back,
            "tallies": msgspec.json.encode(flush.tallies).decode(),
            "now": now,
            "topic": flush.shard.topic,
            "part": flush.shard.partition,
        },
    )

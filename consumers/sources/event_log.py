"""Log of events on this machine's disk, for a service without Kafka: topics in one SQLite file.

A batch is one transaction, synchronised with the disk before :meth:`EventLog.append` returns. So a
batch, its offsets and its place in a file that was dropped are durable together or not at all.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from monitor.errors import FullLogError, MissingTopicError, SourceError
from monitor.records import Record, RecordBatch, Shard

_SCHEMA = """
CREATE TABLE IF NOT EXISTS shards (
  topic TEXT, partition INTEGER, topic_id TEXT NOT NULL, end INTEGER NOT NULL,
  PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS events (
  topic TEXT, partition INTEGER, offset INTEGER, stamp INTEGER NOT NULL, value BLOB,
  PRIMARY KEY (topic, partition, offset)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (
  name BLOB PRIMARY KEY, position INTEGER NOT NULL, line INTEGER NOT NULL);
"""
_OF_SHARD = "topic = ? AND partition = ?"
TRIMMED = 50_000
"""Most offsets that one :meth:`EventLog.trim` looks at, since posts wait for it: some 50 ms."""
MILLISECOND = 1000


class Mark(NamedTuple):
    """Place, in bytes and lines, up to which the file with this name was read."""

    name: bytes
    position: int = 0
    line: int = 0


class EventLog:
    """Durable log of topics with partitions, which one process has open; any thread may use it.

    Args:
        path: the SQLite file, created with its folder if it is missing.
        topics: number of partitions by topic; missing topics are created.
        now: returns the wall clock, microseconds.

    Attributes:
        arrived: set by every append, for one reader that clears it before it reads.

    Raises SourceError when another process has the log open, or the file cannot be used.
    """

    def __init__(self, path: Path, topics: Mapping[str, int], now: Callable[[], int]) -> None:
        self.path = path
        self.arrived = threading.Event()
        self._now = now
        self._turn = threading.Lock()
        self._closed = False
        self._ids: dict[str, str] = {}
        self._extents: dict[Shard, tuple[int, int]] = {}
        self._database = self._connect()
        try:
            with self._guarded():
                # Exclusive: the operating system ends the lock with this process, however it ends.
                for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL"):
                    self._database.execute(f"PRAGMA {pragma}")
                self._database.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                self._create(topics)
                self._read_shards()
        except BaseException:
            self.close()
            raise

    def shards(self, topic: str) -> list[Shard]:
        """Return all partitions of a topic; raise MissingTopicError if it is unknown."""
        self.topic_id(topic)
        return sorted(shard for shard in self._extents if shard.topic == topic)

    def topic_id(self, topic: str) -> str:
        """Return the topic's id, drawn when it was created; raise MissingTopicError if unknown."""
        if topic not in self._ids:
            raise MissingTopicError(f"the event log {self.path} has no topic {topic}")
        return self._ids[topic]

    def extent(self, shard: Shard) -> tuple[int, int]:
        """Return the first offset that is kept, and the next one to be written."""
        return self._extents[shard]

    def write(self, records: Sequence[Record]) -> None:
        """Append records to the first partition of their topics, durably; see :meth:`append`."""
        values: dict[Shard, list[bytes | None]] = {}
        for record in records:
            values.setdefault(Shard(record.topic, 0), []).append(record.value)
        self.append(values)

    def append(
        self, values: Mapping[Shard, Sequence[bytes | None]], mark: Mark | None = None
    ) -> None:
        """Append messages and the mark of their origin; return when all are on disk.

        Raises:
            FullLogError: the disk is full; nothing was appended.
            SourceError: the log cannot be written; nothing was appended.
        """
        stamp = self._now() // MILLISECOND
        with self._transaction() as database:
            ends = {shard: self._extents[shard][1] for shard in values}
            for shard, messages in values.items():
                end = ends[shard]
                database.executemany(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
                    ((*_key(shard), end + i, stamp, value) for i, value in enumerate(messages)),
                )
                ends[shard] = end + len(messages)
                sql = f"UPDATE shards SET end = ? WHERE {_OF_SHARD}"
                database.execute(sql, (ends[shard], *_key(shard)))
            if mark is not None:
                database.execute("REPLACE INTO marks VALUES (?, ?, ?)", mark)
            database.execute("COMMIT")
            for shard, end in ends.items():
                self._extents[shard] = self._extents[shard][0], end
        self.arrived.set()

    def mark(self, name: bytes) -> Mark:
        """Return the stored mark with this name, or one at the beginning."""
        with self._transaction() as database:
            row = database.execute("SELECT * FROM marks WHERE name = ?", (name,)).fetchone()
        return Mark(*row) if row else Mark(name)

    def read(self, shard: Shard, offset: int, limit: int) -> RecordBatch:
        """Return at most ``limit`` messages of a shard, from ``offset`` on."""
        with self._transaction() as database:
            rows = database.execute(
                f"SELECT offset, value, stamp FROM events WHERE {_OF_SHARD} AND offset >= ?"
                " ORDER BY offset LIMIT ?",
                (*_key(shard), offset, limit),
            ).fetchall()
        offsets, values, stamps = zip(*rows, strict=True) if rows else ((), (), ())
        return RecordBatch(shard, offsets, list(values), stamps, self.extent(shard)[1])

    def at_time(self, shard: Shard, stamp: int) -> int:
        """Return the first offset that was written at ``stamp`` (ms) or later, or the end."""
        sql = f"SELECT min(offset) FROM events WHERE {_OF_SHARD} AND stamp >= ?"
        with self._transaction() as database:
            offset = database.execute(sql, (*_key(shard), stamp)).fetchone()[0]
        return self.extent(shard)[1] if offset is None else int(offset)

    def trim(self, shard: Shard, below: int, keep: int) -> None:
        """Delete a few of the messages below an offset that were written ``keep`` us ago."""
        before = (self._now() - keep) // MILLISECOND
        where = f"{_OF_SHARD} AND offset < ? AND stamp < ?"
        with self._transaction() as database:
            first, end = self._extents[shard]  # in our turn: an append moves the end
            until = min(below, first + TRIMMED)
            database.execute(f"DELETE FROM events WHERE {where}", (*_key(shard), until, before))
            database.execute("COMMIT")
            self._extents[shard] = self._first(shard, end), end

    def close(self) -> None:
        """Close the log, so that another process can open it; safe to call twice."""
        with self._turn:
            self._closed = True
            self._database.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives its other files the rights of this one.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            return sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise SourceError(f"the event log {self.path} cannot be opened: {error}") from error

    def _create(self, topics: Mapping[str, int]) -> None:
        for statement in _SCHEMA.split(";"):
            self._database.execute(statement)
        for topic, partitions in topics.items():
            identity = secrets.token_hex(16)
            rows = ((topic, partition, identity, 0) for partition in range(partitions))
            self._database.executemany("INSERT OR IGNORE INTO shards VALUES (?, ?, ?, ?)", rows)

    def _read_shards(self) -> None:
        rows = self._database.execute("SELECT topic, partition, topic_id, end FROM shards")
        for topic, partition, identity, end in rows.fetchall():
            self._ids[topic] = identity
            shard = Shard(topic, partition)
            self._extents[shard] = self._first(shard, end), end

    def _first(self, shard: Shard, end: int) -> int:
        sql = f"SELECT min(offset) FROM events WHERE {_OF_SHARD}"
        first = self._database.execute(sql, _key(shard)).fetchone()[0]
        return end if first is None else int(first)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the turn for one transaction, committed at the end of the block at the latest."""
        with self._turn, self._guarded():
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database
                if self._database.in_transaction:
                    self._database.execute("COMMIT")
            finally:
                if not self._closed and self._database.in_transaction:
                    self._database.execute("ROLLBACK")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn SQLite's errors into SourceErrors, and refuse a closed log."""
        if self._closed:
            raise SourceError("the event log is closed")
        try:
            yield
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> SourceError:
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return FullLogError(
                f"the disk of the event log {self.path} is full: free space, and send the batch"
                " again"
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return SourceError(
                f"the event log {self.path} is open in another process: stop that slicewatch, or"
                " give this one a database of its own (store.url)"
            )
        return SourceError(
            f"the event log {self.path} cannot be used: {error.sqlite_errorname}; check its disk"
        )


def _key(shard: Shard) -> tuple[str, int]:
    return shard.topic, shard.partition

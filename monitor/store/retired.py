"""Topics that are no longer in the settings: their shards are not read and hold nothing back.

A start compares the topics of its settings with the shards that the store knows. Counts of a
retired topic stay. A topic that is configured again goes on at its stored offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from monitor.errors import RetiredTopicError, StoreError
from monitor.records import Shard
from monitor.store.database import reading, writing
from monitor.store.schema import ownership
from monitor.store.shard_rows import lock_shards, tallies_of


@dataclass(frozen=True, slots=True)
class ConfiguredTopics:
    """Topics in the settings: the one of decisions and the one of their labels."""

    decisions: str
    labels: str

    @property
    def all(self) -> frozenset[str]:
        """Return the names of both topics."""
        return frozenset((self.decisions, self.labels))


class RetiredTopics:
    """Reader and writer of a store's retired topics, for starts of the service."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def changes(self, topics: ConfiguredTopics) -> list[str]:
        """Return a line for each change that a start with these topics would make.

        Raises:
            StoreError: the start would be refused.
        """
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(ownership)).all()
        _refuse(rows, topics)
        return [*_lines(_leaving(rows, topics), _coming(rows, topics))]

    def keep(self, topics: ConfiguredTopics, now: int) -> list[str]:
        """Retire topics not in ``topics``, resume those that are; return a line per change.

        Workers that read a retired topic are fenced out.

        Args:
            topics: topics of the settings.
            now: wall clock, microseconds.

        Raises:
            StoreError: a topic had labels so far and is now to have decisions, or the reverse.
        """
        if not self.changes(topics):
            return []  # nobody is kept waiting by the locks
        with writing(self._engine) as connection:
            rows = list(lock_shards(connection).values())
            _refuse(rows, topics)
            leaving, coming = _leaving(rows, topics), _coming(rows, topics)
            _retire(connection, leaving, now)
            _retire(connection, coming, None)
        return [*_lines(leaving, coming)]


def require_in_use(connection: sa.Connection, shards: Collection[Shard]) -> None:
    """Raise RetiredTopicError if one of these shards' topics is retired."""
    topics = {shard.topic for shard in shards}
    retired = sa.select(ownership.c.topic).where(
        ownership.c.topic.in_(topics), ownership.c.retired_at.is_not(None)
    )
    topic = connection.execute(retired.limit(1)).scalar()
    if topic is not None:
        raise RetiredTopicError(topic)


def _retire(connection: sa.Connection, topics: Collection[str], at: int | None) -> None:
    """Retire topics at this time, or revive them with None; workers that own them are fenced."""
    if topics:
        connection.execute(
            sa.update(ownership)
            .where(ownership.c.topic.in_(topics))
            .values(epoch=ownership.c.epoch + 1, retired_at=at)
        )


def _leaving(rows: Iterable[sa.Row[Any]], topics: ConfiguredTopics) -> list[str]:
    return sorted({r.topic for r in rows if r.retired_at is None} - topics.all)


def _coming(rows: Iterable[sa.Row[Any]], topics: ConfiguredTopics) -> list[str]:
    return sorted({r.topic for r in rows if r.retired_at is not None} & topics.all)


def _lines(leaving: Iterable[str], coming: Iterable[str]) -> Iterator[str]:
    for topic in leaving:
        yield (
            f"topic {topic} is not in the settings any more: it is retired, what was counted of it"
            " stays, and nothing waits for it"
        )
    for topic in coming:
        yield f"topic {topic} was retired and is in the settings again: it goes on where it stood"


def _refuse(rows: Iterable[sa.Row[Any]], topics: ConfiguredTopics) -> None:
    """Raise an error if the settings exchange the topics of decisions and labels."""
    for row in rows:
        tallies = tallies_of(row)
        if row.topic == topics.decisions and (tallies.unmatched or tallies.waiting):
            raise _exchanged("stream.decisions_topic", row.topic, "labels")
        if row.topic == topics.labels and tallies.requested:
            raise _exchanged("stream.labels_topic", row.topic, "decisions")


def _exchanged(key: str, topic: str, had: str) -> StoreError:
    return StoreError(
        f"{key}: topic {topic} had {had} so far, and its positions are counted as such: give the"
        " settings the topics they had, or use a new store"
    )

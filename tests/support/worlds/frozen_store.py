"""A store that a release left half read: what upgrades, and copies to a server, are tested on.

It has the rows of every table, the settings they were written with and the topics they were read
from. Nothing has been released yet, so this program makes it; the first change of the schema after
a release needs the rows of that release in a file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from histories import Event, Histories, doubled, shuffled
from pipeline import DECISIONS, LABELS, SETTINGS, Pipeline, messages

from monitor.store import database

PARTITIONS = (2, 2)
UNREADABLE = b"not an event"

Topics = dict[str, list[list[bytes | None]]]
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class FrozenStore:
    """A store and its topics.

    Attributes:
        revision: of the schema.
        settings: text of the settings file.
        topics: all messages of every partition by topic; ``ownership`` says how far they are read.
        tables: rows by table, of those that have any.
    """

    revision: str
    settings: str
    topics: Topics
    tables: Rows

    def write_to(self, engine: sa.Engine) -> None:
        """Make the schema of that version in an empty database, and copy table by table."""
        upgrade(engine, self.revision)
        with database.writing(engine) as connection:
            for table in _tables(connection):
                if rows := self.tables.get(table.name):
                    connection.execute(table.insert(), rows)

    def events(self, topic: str) -> list[Event]:
        """All readable events of a topic."""
        return _readable(message for part in self.topics[topic] for message in part)

    @property
    def length(self) -> int:
        """Messages of all topics."""
        return sum(len(part) for parts in self.topics.values() for part in parts)

    def unread(self, topic: str) -> int:
        """Messages that were not consumed yet."""
        read: int = sum(
            row["next_offset"] for row in self.tables["ownership"] if row["topic"] == topic
        )
        return sum(map(len, self.topics[topic])) - read


def _readable(bodies: Iterable[bytes | None]) -> list[Event]:
    decoded = [json.loads(body) for body in bodies if body and body != UNREADABLE]
    return [event for one in decoded for event in (one if isinstance(one, list) else [one])]


def upgrade(engine: sa.Engine, revision: str) -> None:
    """Bring a database to one revision, which need not be the newest."""
    config = Config()
    config.set_main_option("script_location", str(database._MIGRATIONS))
    with database.writing(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def read_tables(engine: sa.Engine) -> Rows:
    """All rows of all tables, in the order of their keys."""
    with database.reading(engine) as connection:
        return {
            table.name: [_row(row) for row in connection.execute(_ordered(table)).mappings()]
            for table in _tables(connection)
        }


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """SQLite does not say that instants are UTC."""
    return {
        name: value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _tables(connection: sa.Connection) -> Iterable[sa.Table]:
    """The tables as the database has them: the program may know a newer schema."""
    found = sa.MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != "alembic_version"]


def _ordered(table: sa.Table) -> sa.Select[Any]:
    return sa.select(table).order_by(*table.primary_key)


def freeze(folder: Path) -> FrozenStore:
    """Read most of a history, fold a part of that, and keep the store as it is then."""
    topics = _history()
    with Pipeline(folder, PARTITIONS) as pipeline:
        pipeline.worker()
        for begin, end, folded in ((0.0, 0.5, True), (0.5, 0.7, False)):
            for topic, parts in topics.items():
                for number, part in enumerate(parts):
                    chosen = part[int(begin * len(part)) : int(end * len(part))]
                    pipeline.broker.produce(topic, chosen, partition=number)
            pipeline.drain()
            if folded:
                pipeline.fold()
        tables = {name: rows for name, rows in read_tables(pipeline.engine).items() if rows}
        revision = database.schema_revision(pipeline.engine)
        assert revision is not None
        return FrozenStore(revision, SETTINGS, topics, tables)


def _history() -> Topics:
    """Copies of a decision stay in its partition; labels go anywhere; a few cannot be read."""
    pick = random.Random(5)
    history = Histories(20, 100, hours=40)
    decisions = shuffled(history.decisions, pick)
    labels = doubled(shuffled(history.labels, pick), pick, 0.05)
    events = {
        DECISIONS: [doubled(decisions[part::2], pick, 0.2, minutes=59) for part in range(2)],
        LABELS: [labels[part::2] for part in range(2)],
    }
    topics = {
        topic: [messages(part, [1, 4, 2] * 10) for part in parts] for topic, parts in events.items()
    }
    for parts in topics.values():
        parts[0][3:3] = [UNREADABLE]
    return topics

"""A store as an older version of slicewatch left it, in a file: what upgrades are tested on.

The file holds the rows of every table, the settings they were written with and the topics they
were read from, of which a part was still unread. One line is one fact, as JSON. A new file is
made by the version whose schema it shows, in a tree of that version that has this module::

    PYTHONPATH=.:tests/support/drivers:tests/support/oracles python \\
        tests/support/worlds/frozen_store.py tests/data/store_1001.jsonl
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from histories import Event, Histories, doubled, shuffled
from pipeline import DECISIONS, LABELS, SETTINGS, Pipeline, messages

from monitor.store import database

DATA = Path(__file__).parents[2] / "data"
PARTITIONS = (2, 2)
UNREADABLE = b"not an event"

Topics = dict[str, list[list[bytes | None]]]
Rows = dict[str, list[dict[str, Any]]]


@dataclass
class FrozenStore:
    """What the file says.

    Attributes:
        revision: of the schema.
        settings: text of the settings file.
        topics: all messages of every partition by topic; ``ownership`` says how far they are read.
        tables: rows by table.
    """

    revision: str = ""
    settings: str = ""
    topics: Topics = field(default_factory=dict)
    tables: Rows = field(default_factory=dict)

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

    def events_read(self, topic: str) -> list[Event]:
        """Those that the old version had read."""
        positions = {
            row["part"]: row["next_offset"]
            for row in self.tables["ownership"]
            if row["topic"] == topic
        }
        parts = enumerate(self.topics[topic])
        return _readable(body for number, part in parts for body in part[: positions[number]])

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


def load(revision: str) -> FrozenStore:
    """The frozen store of a schema revision."""
    frozen, columns, rows = FrozenStore(), list[str](), list[dict[str, Any]]()
    for line in (DATA / f"store_{revision}.jsonl").read_text().splitlines():
        fact = json.loads(line)
        if "table" in fact:
            columns, rows = fact["columns"], frozen.tables.setdefault(fact["table"], [])
        elif "row" in fact:
            rows.append(dict(zip(columns, map(_from_json, fact["row"]), strict=True)))
        elif "topic" in fact:
            parts = frozen.topics.setdefault(fact["topic"], [[] for _ in range(max(PARTITIONS))])
            parts[fact["partition"]].append(fact["message"].encode())
        else:
            frozen.revision, frozen.settings = fact["revision"], fact["settings"]
    return frozen


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


def _freeze(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Read most of a history, fold a part of that, and tell what is in the store then."""
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
        yield {"revision": database.schema_revision(pipeline.engine), "settings": SETTINGS}
        for topic, parts in topics.items():
            for number, part in enumerate(parts):
                for body in part:
                    yield {"topic": topic, "partition": number, "message": (body or b"").decode()}
        for name, rows in read_tables(pipeline.engine).items():
            if rows:
                yield {"table": name, "columns": list(rows[0])}
            for row in rows:
                # The worker's name tells of the machine.
                known = row | ({"owner": "worker"} if row.get("owner") else {})
                yield {"row": [_to_json(value) for value in known.values()]}


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


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    if isinstance(value, date):  # an instant is one too
        return {type(value).__name__: value.isoformat()}
    return value


READERS: dict[str, Callable[[str], Any]] = {
    "base64": b64decode,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
}


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    return READERS[kind](text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, Path(sys.argv[1]).open("w") as file:
        for fact in _freeze(Path(scratch)):
            file.write(json.dumps(fact) + "\n")

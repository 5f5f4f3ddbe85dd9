"""Settings that change how events are handled, as the last start of the service had them.

No start is refused for them. A start lists the differences, and ``check`` lists them before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from monitor.store.database import reading, writing
from monitor.store.schema import meta

_PREFIX = "setting "  # before the key, in ``meta``


class LastSettings:
    """Reader and writer of the settings that a store remembers: texts by key."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def changes(self, values: Mapping[str, str]) -> list[str]:
        """Return the differences from the last start, a line each; a new key is no change."""
        return _differences(self._kept(), values)

    def keep(self, values: Mapping[str, str]) -> list[str]:
        """Store settings; return the differences from the last start, a line each."""
        kept = self._kept()
        fresh = {key: value for key, value in values.items() if kept.get(key) != value}
        if fresh:
            with writing(self._engine) as connection:
                _write(connection, fresh)
        return _differences(kept, values)

    def _kept(self) -> dict[str, str]:
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(meta).where(meta.c.name.startswith(_PREFIX)))
            return {row.name.removeprefix(_PREFIX): row.value for row in rows}


def _differences(kept: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
    return [
        f"{part} is {now} now, and was {before} at the last start"
        for key, value in values.items()
        if kept.get(key, value) != value
        for part, now, before in _parts(key, value, kept[key])
    ]


def _parts(key: str, now: str, before: str) -> Iterator[tuple[str, str, str]]:
    """Yield (key, present text, last text) of each difference; a table gives one per entry."""
    if not (now.startswith("{") and before.startswith("{")):
        yield key, now, before
        return
    new, old = _entries(key, json.loads(now)), _entries(key, json.loads(before))
    for name in sorted(new.keys() | old.keys()):
        if new.get(name) != old.get(name):
            yield name, new.get(name, "absent"), old.get(name, "absent")


def _entries(key: str, table: Any) -> dict[str, str]:
    """Return the entries of a table and its nested tables: JSON text by full name."""
    if not isinstance(table, dict):
        return {key: json.dumps(table, ensure_ascii=False)}
    parts = [_entries(f"{key}.{name}", part) for name, part in table.items()]
    return {name: text for part in parts for name, text in part.items()}


def _write(connection: sa.Connection, values: Mapping[str, str]) -> None:
    rows = [{"name": _PREFIX + key, "value": value} for key, value in values.items()]
    query = (
        "INSERT INTO meta (name, value) VALUES (:name, :value)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
    connection.execute(sa.text(query), rows)

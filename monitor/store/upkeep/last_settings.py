"""Settings that change what becomes of events, as the last start of the service had them.

Nothing is refused for them. A start says what is different now, and ``check`` says it before.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from monitor.store.database import reading, writing
from monitor.store.schema import meta

_PREFIX = "setting "  # before the key, in ``meta``


class LastSettings:
    """Settings that one store remembers: texts by key."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def changes(self, values: Mapping[str, str]) -> list[str]:
        """Differences from the last start, a line each; what was never kept is no change."""
        return _differences(self._kept(), values)

    def keep(self, values: Mapping[str, str]) -> list[str]:
        """Remember them; returns what was different, a line each."""
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
        f"{key} is {value} now, and was {kept[key]} at the last start"
        for key, value in values.items()
        if kept.get(key, value) != value
    ]


def _write(connection: sa.Connection, values: Mapping[str, str]) -> None:
    rows = [{"name": _PREFIX + key, "value": value} for key, value in values.items()]
    query = (
        "INSERT INTO meta (name, value) VALUES (:name, :value)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
    connection.execute(sa.text(query), rows)

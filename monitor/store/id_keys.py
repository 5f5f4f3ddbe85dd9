"""Id keys of a store: kept and checked at a start, expired in time, dropped on demand.

A decision and its labels are hashed with the key of the day they name. The keys themselves are in
the settings. The store has their names, days and fingerprints, so that a start with other keys is
refused. A store may make a key of its own only where all use cases are test conditions.

A change of the keys locks the eras of coding, and fences all shards: nothing is hashed by keys that
the store does not have.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import sqlalchemy as sa

from monitor.core.time import Grain, pane_of
from monitor.errors import OutdatedError, StoreError
from monitor.id_key import BEGINNING, IdKey
from monitor.settings.sections import STORE_KEY
from monitor.store import id_key_rules as rules
from monitor.store.codings import fence_all, lock_eras
from monitor.store.database import reading, writing
from monitor.store.erasure import FORGOTTEN, drop_waiting
from monitor.store.id_key_rules import KeyMark, ends
from monitor.store.schema import double_label, label_state, meta, ownership, pending, waiting_label
from monitor.store.schema import id_key as table
from monitor.store.shard_rows import read_slowest

_OWN = "id_key"  # name of the store's own key in ``meta``
_HASHED = (pending, label_state, double_label, waiting_label)


class IdKeys:
    """Reader and writer of one store's id keys, for starts and open stores."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def keep(self, wanted: Sequence[IdKey], horizon: int) -> tuple[IdKey, ...]:
        """Store the marks of the keys in force, fencing all on a change; return these keys.

        Args:
            wanted: keys of the settings, by start; none where the store makes its own.
            horizon: longest time from a decision to its labels (microseconds).

        Raises:
            OutdatedError: the store was started with newer settings.
            StoreError: this store cannot go on with these keys.
        """
        with writing(self._engine) as connection:
            lock_eras(connection)
            stored = read_marks(connection)
            keys = _keys_after_start(connection, stored, wanted, horizon) or (
                _make_own(connection),
            )
            marks = rules.marks_of(keys)
            if marks != stored:
                fence_all(connection)
                _replace_marks(connection, marks)
        return keys

    def in_force(self, wanted: Sequence[IdKey]) -> tuple[IdKey, ...]:
        """Return the keys of an open store by start; refuse settings that do not match it.

        Raises:
            OutdatedError: the store was started with newer settings.
            StoreError: the settings have another key under a known name, or lack the only one.
        """
        with reading(self._engine) as connection:
            stored, own_keys = read_marks(connection), _own_key(connection)
        keys = {key.id: key for key in (*own_keys, *wanted)}
        if not stored:
            raise StoreError("this store has no id key yet; start the service first")
        if not wanted and len(stored) > len(own_keys):
            raise rules.not_set(stored)
        for mark in stored:
            if mark.id not in keys:
                raise rules.outdated(mark)
            rules.refuse_another(mark, KeyMark.from_key(keys[mark.id]))
        return tuple(keys[mark.id] for mark in stored)

    def changes(self, wanted: Sequence[IdKey], horizon: int) -> list[str]:
        """Return a line for each change that a start with these keys would make.

        Raises:
            OutdatedError: the store was started with newer settings.
            StoreError: the start would be refused.
        """
        with reading(self._engine) as connection:
            stored = read_marks(connection)
            keys = _keys_after_start(connection, stored, wanted, horizon)
        if not stored:
            return []
        before, after = {mark.id for mark in stored}, {key.id for key in keys}
        return [
            *(f'id key "{key.id}" is new' for key in keys if key.id not in before),
            *(f'id key "{mark.id}" is forgotten' for mark in stored if mark.id not in after),
        ]


def read_marks(connection: sa.Connection) -> tuple[KeyMark, ...]:
    """Return the marks of the store's keys, by start."""
    rows = connection.execute(sa.select(table).order_by(table.c.effective_from)).all()
    return tuple(KeyMark(row.id, row.effective_from, row.fingerprint) for row in rows)


def require_keys(connection: sa.Connection, keys: Sequence[IdKey]) -> None:
    """Raise OutdatedError unless the store still has exactly these keys.

    The store's own key may be gone: it is deleted automatically.
    """
    stored = read_marks(connection)
    own_marks = rules.marks_of(keys)
    if STORE_KEY not in {mark.id for mark in stored}:
        own_marks = tuple(mark for mark in own_marks if mark.id != STORE_KEY)
    if stored != own_marks:
        raise OutdatedError(rules.CHANGED)


def expire_own_key(engine: sa.Engine, horizon: int) -> None:
    """Delete the store's own key once no label can come for ids hashed with it."""
    with reading(engine) as connection:
        if not _own_is_past(connection, horizon):
            return
    with writing(engine) as connection:
        lock_eras(connection)
        if _own_is_past(connection, horizon):
            forget_mark(connection, STORE_KEY)


def forget_mark(connection: sa.Connection, name: str) -> None:
    """Delete a key's mark by name; of the store's own key, also overwrite the key."""
    connection.execute(sa.delete(table).where(table.c.id == name))
    if name == STORE_KEY:
        _delete_own(connection)


def _own_is_past(connection: sa.Connection, horizon: int) -> bool:
    """Return True if the store's own key is replaced, and nothing hashed with it is left."""
    end = rules.ends(read_marks(connection)).get(STORE_KEY)
    return end is not None and _is_past(connection, end, horizon)


def _keys_after_start(
    connection: sa.Connection, stored: Sequence[KeyMark], wanted: Sequence[IdKey], horizon: int
) -> tuple[IdKey, ...]:
    """Return all keys in force after a start with ``wanted``; empty if the store must make one."""
    read_to = connection.execute(sa.select(sa.func.max(ownership.c.max_decided_at))).scalar()
    if read_to is None or not stored:
        return tuple(wanted) or _own_key(connection)
    own_keys = _own_key(connection)
    if not wanted and not own_keys:
        raise rules.not_set(stored)
    keys = (*own_keys, *wanted)
    marks = rules.marks_of(keys)
    left = rules.ends({*stored, *marks})
    for mark in rules.gone(stored, marks, read_to):
        if not _is_past(connection, left[mark.id], horizon):
            raise rules.needed(mark, left[mark.id], horizon)
    return keys


def _is_past(connection: sa.Connection, end: int, horizon: int) -> bool:
    """Return True when no hashed ids before ``end`` are left, and none can come."""
    slowest = read_slowest(connection)
    if slowest is None or slowest - horizon < end:
        return False
    hour = pane_of(end, Grain.HOUR)
    kept = (sa.select(sa.exists().where(hashed_table.c.hour < hour)) for hashed_table in _HASHED)
    return not any(connection.execute(query).scalar_one() for query in kept)


def _replace_marks(connection: sa.Connection, marks: Sequence[KeyMark]) -> None:
    """Replace all stored marks; delete an own key that has no mark. The eras must be locked."""
    connection.execute(sa.delete(table))
    rows = [
        {"id": mark.id, "effective_from": mark.start, "fingerprint": mark.fingerprint}
        for mark in marks
    ]
    connection.execute(sa.insert(table), rows)
    if STORE_KEY not in {mark.id for mark in marks}:
        _delete_own(connection)


def _own_key(connection: sa.Connection) -> tuple[IdKey, ...]:
    """Return a tuple of the key that the store made itself, or an empty one."""
    value = connection.execute(sa.select(meta.c.value).where(meta.c.name == _OWN)).scalar()
    return () if value is None else (IdKey(STORE_KEY, BEGINNING, bytes.fromhex(value)),)


def _make_own(connection: sa.Connection) -> IdKey:
    text = secrets.token_hex(32)
    connection.execute(sa.insert(meta).values(name=_OWN, value=text))
    return IdKey(STORE_KEY, BEGINNING, bytes.fromhex(text))


def _delete_own(connection: sa.Connection) -> None:
    """Delete the store's own key, so that its bytes are gone from the file too."""
    on_file = connection.dialect.name == "sqlite"
    if on_file:  # else the bytes of a deleted row stay until others need their place
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    connection.execute(sa.delete(meta).where(meta.c.name == _OWN))
    if on_file:
        connection.exec_driver_sql("PRAGMA secure_delete = OFF")


def drop_key(engine: sa.Engine, name: str) -> dict[str, int]:
    """Delete a key's mark and rows hashed with it, fencing all; return removed rows by table.

    Returns:
        Rows removed, by table.

    Raises:
        StoreError: the store does not know the key.
    """
    with writing(engine) as connection:
        lock_eras(connection)
        marks = {mark.id: mark for mark in read_marks(connection)}
        if name not in marks:
            names = ", ".join(marks) or "none"
            raise StoreError(f"this store knows no such id key; it knows: {names}")
        fence_all(connection)
        start, end = marks[name].start, ends(marks.values()).get(name)
        oldest = start == min(mark.start for mark in marks.values())
        hours = (None if oldest else start, end)
        removed = {
            table.name: connection.execute(
                sa.delete(table).where(*_hour_conditions(table, *hours))
            ).rowcount
            for table in (pending, label_state, double_label)
        }
        waiting = _hour_conditions(waiting_label, *hours)
        removed[waiting_label.name] = drop_waiting(connection, FORGOTTEN, *waiting)
        forget_mark(connection, name)
    return removed


def _hour_conditions(
    table: sa.Table, start: int | None, end: int | None
) -> list[sa.ColumnElement[bool]]:
    """Return SQL conditions for hours between two instants, edges of hours; None: no edge."""
    conditions: list[sa.ColumnElement[bool]] = []
    if start is not None:
        conditions.append(table.c.hour >= pane_of(start, Grain.HOUR))
    if end is not None:
        conditions.append(table.c.hour < pane_of(end, Grain.HOUR))
    return conditions

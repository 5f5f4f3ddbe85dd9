"""Eras of coding, by event time, and what a start with other settings does to them.

Each row of ``coding`` is an era that begins at its ``effective_from``. A start whose attributes
list more than before begins a new era, in an hour without counted decisions. A start that lists
less is refused, also of a process that is started again with its older settings: only
:mod:`monitor.store.upkeep.recode` removes attributes and values. An era without counted decisions
is no history: a start that lists more replaces it.

A store keeps the score bands that it was first counted with.

A change of the eras locks the table, and fences all shards and the evaluator; a claim of a shard
looks at the eras under that lock. So nothing is counted by eras that the store does not have.
"""

from __future__ import annotations

import sqlalchemy as sa

from monitor.core.counts.coding import Coding, CodingHistory, CodingVersion
from monitor.core.time import Grain, pane_of, pane_start
from monitor.errors import OutdatedError, StoreError
from monitor.store.database import reading, writing
from monitor.store.schema import coding as table
from monitor.store.schema import lease, ownership
from monitor.store.shard_rows import lock_shards

_OUTDATED = (
    "this worker's settings are older than the store's: attributes or their values have changed"
    " since it started; restart it with the new ones"
)


class Codings:
    """Reader and writer of one store's eras of coding, for starts and open stores."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def eras(self, coding: Coding) -> CodingHistory:
        """Return all eras of the store; refuse if its newest coding is not ``coding``.

        Raises:
            OutdatedError: the store was started with another coding since.
        """
        with reading(self._engine) as connection:
            eras = read_eras(connection)
        if eras is None or eras.newest.hash != coding.hash:
            raise OutdatedError(_OUTDATED)
        return eras

    def changes(self, coding: Coding) -> list[str]:
        """Return a line for each change that a start with this coding would make.

        Raises:
            StoreError: the start would be refused.
        """
        with reading(self._engine) as connection:
            stored, counted_to = read_eras(connection), _counted_to(connection)
        if stored is None or counted_to is None:
            return []
        _refuse_removed(stored.newest, coding)
        gained = stored.newest.lacks(coding)
        changed = coding.means_otherwise(stored.newest)
        return [
            *(f"{name} is new and is counted apart from now on" for name in gained),
            *(f"{name} has other aliases or ranges, for decisions from now on" for name in changed),
        ]

    def keep(self, coding: Coding, not_before: int | None = None) -> CodingHistory:
        """Store ``coding`` as a new era, fencing all workers, if it is new; return all eras.

        Args:
            coding: coding of the settings.
            not_before: a new era begins with an hour after this instant, and after all events
                read so far; None where event time is history.

        Raises:
            StoreError: this store cannot go on with this coding.
        """
        with writing(self._engine) as connection:
            lock_eras(connection)
            stored = read_eras(connection)
            if stored is not None and stored.newest.hash == coding.hash:
                return stored
            counted_to = fence_all(connection)
            eras = CodingHistory.always(coding)
            if stored is not None and counted_to is not None:
                _refuse_removed(stored.newest, coding)
                eras = _with_new_era(stored, coding, counted_to, not_before or counted_to)
            write_eras(connection, eras)
        return eras


def read_eras(connection: sa.Connection) -> CodingHistory | None:
    """Return all stored eras; None in a store that was never started."""
    rows = connection.execute(sa.select(table).order_by(table.c.effective_from)).all()
    eras = tuple(CodingVersion(row.effective_from, Coding.parse(row.body)) for row in rows)
    return CodingHistory(eras) if eras else None


def write_eras(connection: sa.Connection, eras: CodingHistory) -> None:
    """Replace all stored eras by these; the table must be locked."""
    connection.execute(sa.delete(table))
    rows = [
        {"effective_from": era.start, "hash": era.coding.hash, "body": era.coding.canonical()}
        for era in eras.eras
    ]
    connection.execute(sa.insert(table), rows)


def require_eras(connection: sa.Connection, eras: CodingHistory) -> None:
    """Raise OutdatedError unless the store still has exactly these eras."""
    rows = connection.execute(sa.select(table.c.effective_from, table.c.hash)).all()
    if {tuple(row) for row in rows} != {(era.start, era.coding.hash) for era in eras.eras}:
        raise OutdatedError(_OUTDATED)


def lock_eras(connection: sa.Connection, *, shared: bool = False) -> None:
    """Lock the table of eras until the transaction ends, as its first statement.

    This locks the whole table, because a missing row cannot be locked. A writing transaction on
    SQLite is alone anyway.
    """
    if connection.dialect.name == "postgresql":
        mode = "SHARE" if shared else "SHARE ROW EXCLUSIVE"
        connection.execute(sa.text(f"LOCK TABLE {table.name} IN {mode} MODE"))


def fence_all(connection: sa.Connection) -> int | None:
    """Raise the epochs of all shards and the evaluator; return the newest event time read.

    Workers and the evaluator must claim again. A running flush ends first.
    """
    newest = [row.max_decided_at for row in lock_shards(connection).values()]
    connection.execute(sa.update(ownership).values(epoch=ownership.c.epoch + 1))
    connection.execute(sa.update(lease).values(epoch=lease.c.epoch + 1))
    return max((at for at in newest if at is not None), default=None)


def _counted_to(connection: sa.Connection) -> int | None:
    """Return the newest decision's time that any shard has counted (microseconds)."""
    newest: int | None = connection.execute(
        sa.select(sa.func.max(ownership.c.max_decided_at))
    ).scalar()
    return newest


def _with_new_era(
    stored: CodingHistory, coding: Coding, counted_to: int, not_before: int
) -> CodingHistory:
    """Return the stored eras that hold decisions, followed by a new era of ``coding``."""
    first, *later = stored.eras
    after = max(counted_to, not_before)
    start = pane_start(pane_of(after, Grain.HOUR) + 1, Grain.HOUR)
    return CodingHistory(
        (first, *(e for e in later if e.start <= counted_to), CodingVersion(start, coding))
    )


def _refuse_removed(stored: Coding, coding: Coding) -> None:
    """Raise StoreError if ``coding`` lacks stored names or values, or differs in what is fixed."""
    refuse_fixed(stored, coding)
    if gone := coding.lacks(stored):
        raise StoreError(
            f"{', '.join(gone)}: not in the settings any more, but in this store; list it again,"
            " or delete what is stored of it: slicewatch db migrate --drop-attributes"
        )


def refuse_fixed(stored: Coding, coding: Coding) -> None:
    """Raise StoreError if two codings differ in strata or in sources of version attributes."""
    if stored.strata != coding.strata:
        raise StoreError(
            "stream.score_bands differ from those this store was counted with; keep them, or"
            " begin a new store (store.url)"
        )
    sources = {a.name: a.version_of for a in stored.attributes}
    for attribute in coding.attributes:
        if sources.get(attribute.name, attribute.version_of) != attribute.version_of:
            raise StoreError(
                f"attribute {attribute.name}: version_of differs from what this store was counted"
                " with; keep it, or give the attribute another name"
            )

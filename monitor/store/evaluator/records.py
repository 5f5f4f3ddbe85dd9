"""Small records of the store: contracts, Snapshots, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from monitor.errors import StoreError
from monitor.flushes import DeadLetter
from monitor.records import Shard
from monitor.store.database import reading, writing
from monitor.store.schema import contract as contract_table
from monitor.store.schema import snapshot
from monitor.store.shard_rows import read_slowest

_NEWEST = sa.text(
    "SELECT id, body FROM snapshot WHERE id = (SELECT MAX(id) FROM snapshot) AND id <> :seen"
)


@dataclass(frozen=True, slots=True)
class ContractRecord:
    """Version of a contract as stored: its numbers and its full text, both as JSON."""

    name: str
    version: str
    numbers: str
    record: str


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """Dead letter as listed later, with its shard and when it was seen (microseconds)."""

    shard: Shard
    letter: DeadLetter
    seen_at: int


class RecordStore:
    """Reader of contracts, Snapshots and dead letters; also stores versions of contracts."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def contract_changes(self, contracts: Sequence[ContractRecord]) -> list[str]:
        """Return a line for each contract version that a start would add to the store."""
        return [
            f"contract {contract.name} version {contract.version} is new"
            for contract in contracts
            if self._numbers(contract) is None
        ]

    def refuse_changes(self, contracts: Sequence[ContractRecord]) -> None:
        """Raise StoreError if a stored version of a contract has other numbers."""
        for contract in contracts:
            stored = self._numbers(contract)
            if stored is not None and stored != contract.numbers:
                raise StoreError(_changed(contract))

    def keep_contracts(self, contracts: Sequence[ContractRecord], now: int) -> None:
        """Store contract versions; a stored version gets the new full text."""
        query = sa.text(
            "INSERT INTO contract (name, version, numbers, record, recorded_at)"
            " VALUES (:name, :version, :numbers, :record, :now)"
            " ON CONFLICT (name, version) DO UPDATE SET record = excluded.record"
        )
        with writing(self._engine) as connection:
            for contract in contracts:
                connection.execute(query, {**asdict(contract), "now": now})

    def _numbers(self, contract: ContractRecord) -> str | None:
        with reading(self._engine) as connection:
            numbers: str | None = connection.execute(
                sa.text("SELECT numbers FROM contract WHERE name = :name AND version = :version"),
                {"name": contract.name, "version": contract.version},
            ).scalar()
        return numbers

    def contracts(self) -> list[ContractRecord]:
        """Return all stored versions of all contracts, by name and version."""
        of = contract_table.c
        query = sa.select(of.name, of.version, of.numbers, of.record).order_by(of.name, of.version)
        with reading(self._engine) as connection:
            return [ContractRecord(*row) for row in connection.execute(query)]

    def newest_snapshot(self, seen: int = 0) -> tuple[int, bytes] | None:
        """Return what :func:`newest_snapshot` does, in a transaction of its own."""
        with reading(self._engine) as connection:
            return newest_snapshot(connection, seen)

    def snapshot_at(self, number: int) -> bytes | None:
        """Return the bytes of a Snapshot by its number; None where it does not exist."""
        with reading(self._engine) as connection:
            body = connection.execute(
                sa.select(snapshot.c.body).where(snapshot.c.id == number)
            ).scalar()
        return None if body is None else bytes(body)

    def slowest_event_time(self) -> int | None:
        """Return the event time that all shards of both topics have passed; None while unknown."""
        with reading(self._engine) as connection:
            return read_slowest(connection)

    def pending_rows(self) -> int:
        """Return the number of decisions that can still get a label."""
        with reading(self._engine) as connection:
            return int(connection.execute(sa.text("SELECT COUNT(*) FROM pending")).scalar_one())

    def dead_letters(self, limit: int, reason: str | None = None) -> list[StoredDeadLetter]:
        """Return at most ``limit`` dead letters, newest first: all, or those of ``reason``."""
        only = "" if reason is None else " WHERE reason = :reason"
        with reading(self._engine) as connection:
            rows = connection.execute(
                sa.text(
                    f"SELECT * FROM dead_letter{only}"
                    " ORDER BY seen_at DESC, topic, part, msg_offset DESC, item LIMIT :limit"
                ),
                {"limit": limit, **({} if reason is None else {"reason": reason})},
            ).all()
        return [
            StoredDeadLetter(
                Shard(row.topic, row.part),
                DeadLetter(row.msg_offset, row.item, row.reason, row.field, row.payload_hash),
                row.seen_at,
            )
            for row in rows
        ]


def newest_snapshot(connection: sa.Connection, seen: int = 0) -> tuple[int, bytes] | None:
    """Return id and bytes of the newest Snapshot; None when there is none, or it is ``seen``.

    A database that has gone back in time has an older Snapshot than was seen.
    """
    row = connection.execute(_NEWEST, {"seen": seen}).one_or_none()
    return None if row is None else (row.id, bytes(row.body))


def _changed(contract: ContractRecord) -> str:
    return (
        f"contract {contract.name}: numbers changed under the unchanged version"
        f" {contract.version}; give the contract a new version, effective date and reason"
    )

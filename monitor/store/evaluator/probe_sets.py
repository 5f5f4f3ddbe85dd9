"""Stored states of declared probe sets: one row each, as the evaluator left it.

Only the evaluator writes them, in the transaction of the cycle whose deltas fed them. An evaluator
that goes on from there has seen each probe decision once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from monitor.store import bulk
from monitor.store.schema import probe_set


@dataclass(frozen=True, slots=True)
class StoredProbeSet:
    """Encoded state of a declared probe set, as the store keeps it.

    Attributes:
        digest: content hash of the set.
        body: the encoded state.
    """

    digest: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ProbeSetsChange:
    """Changes of one cycle to probe sets: new states, and names of sets to delete.

    Attributes:
        states: new states, by the name of the set.
        dropped: names of sets that are no longer declared.
    """

    states: Mapping[str, StoredProbeSet] = field(default_factory=dict)
    dropped: Collection[str] = ()


def read_probe_sets(connection: sa.Connection) -> dict[str, StoredProbeSet]:
    """Return all stored probe sets, by name."""
    rows = connection.execute(sa.select(probe_set)).all()
    return {row.name: StoredProbeSet(row.digest, row.body) for row in rows}


def write_probe_sets(connection: sa.Connection, change: ProbeSetsChange) -> None:
    """Store new states of probe sets, and delete sets that are no longer declared."""
    bulk.delete(connection, probe_set, {"name": sorted(change.dropped)})
    rows = [(name, state.digest, state.body) for name, state in sorted(change.states.items())]
    columns = bulk.by_column(probe_set, rows)
    bulk.insert(connection, probe_set, columns, bulk.replacing(probe_set))

"""Removal of everything that was published or declared about a forgotten attribute or value."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import parse_atom
from monitor.core.counts.coding import Listed
from monitor.core.publish.release import Release, ReleasedIncident
from monitor.core.publish.snapshot import (
    WITHHELD,
    ContractTable,
    GroupTable,
    ShownIncident,
    SliceRow,
    Snapshot,
    decode,
    encode,
)
from monitor.detection.pages.streams import Stream
from monitor.store.evaluator import published_tables, weekly_releases
from monitor.store.schema import contract, snapshot


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Attribute names (value None) and values to remove, and tests of what contains them."""

    listed: Collection[Listed]

    def names(self, attribute: str) -> bool:
        """Return True when an attribute is forgotten as a whole."""
        return (attribute, None) in self.listed

    def slice(self, text: str) -> bool:
        """Return True when the text of a slice or reference has a forgotten name or value."""
        pairs = {} if text == COMPLEMENT else parse_atom(text)
        return any(self.names(n) or (n, value) in self.listed for n, value in pairs.items())

    def group(self, attributes: Collection[str], reference: str = COMPLEMENT) -> bool:
        """Return True when a group-by or its reference has a forgotten name or value."""
        return any(map(self.names, attributes)) or self.slice(reference)

    def place(self, group_by: str, slice_: str) -> bool:
        """Return True if a group-by or a slice of it is forgotten; an empty slice means all."""
        return self.group(group_by.split("+")) or bool(slice_ and self.slice(slice_))

    def stream(self, stream: Stream) -> bool:
        """Return True when a stream watches a forgotten name or value."""
        return self.group(stream.group_by.split("+"), stream.reference) or self.slice(stream.slice)


def forget_published(connection: sa.Connection, listed: Collection[Listed]) -> None:
    """Remove names and values from all Snapshots, the published tables and the contract records.

    A group-by of a forgotten attribute goes as a whole. A forgotten value loses its row, and the
    gaps
    to it as a reference. A contract version whose use case it defined goes.
    """
    gone = Forgotten(listed)
    for key in connection.execute(sa.select(snapshot.c.id)).scalars().all():
        this_snapshot = snapshot.c.id == key
        body = connection.execute(sa.select(snapshot.c.body).where(this_snapshot)).scalar()
        if body is None:
            continue  # retention has deleted it meanwhile
        published = decode(body)
        left = _prune_snapshot(published, gone)
        if left != published:
            connection.execute(sa.update(snapshot).where(this_snapshot).values(body=encode(left)))
    weekly_releases.rewrite(connection, lambda release: _prune_release(release, gone))
    published_tables.forget(connection, lambda name: gone.group(name.split("+")), gone.slice)
    for row in connection.execute(sa.select(contract)).all():
        _forget_in_contract(connection, row, gone)


def _prune_snapshot(published: Snapshot, gone: Forgotten) -> Snapshot:
    return replace(published, contracts=tuple(_prune_table(t, gone) for t in published.contracts))


def _prune_release(release: Release, gone: Forgotten) -> Release:
    """Return a Release without groups, rows and incidents that name what is forgotten."""
    return replace(
        release,
        contracts=tuple(_prune_table(table, gone) for table in release.contracts),
        incidents=tuple(_prune_released_incident(incident, gone) for incident in release.incidents),
        findings=tuple(
            incident
            for incident in release.findings
            if not gone.place(incident.group_by, incident.slice)
        ),
    )


def _prune_names(texts: Collection[str], gone: Forgotten) -> tuple[str, ...]:
    return tuple(text for text in texts if text == WITHHELD or not gone.slice(text))


def _prune_released_incident(incident: ReleasedIncident, gone: Forgotten) -> ReleasedIncident:
    """Return the incident without forgotten slices: the main one is withheld then."""
    incident = replace(incident, further=_prune_names(incident.further, gone))
    if incident.slice == WITHHELD or not gone.place(incident.group_by, incident.slice):
        return incident
    return replace(incident, group_by="", slice=WITHHELD)


def _prune_table(table: ContractTable, gone: Forgotten) -> ContractTable:
    """Return a contract without groups, incidents and limits that name what is forgotten."""
    windows = tuple(
        replace(
            window,
            groups=tuple(
                _prune_group(group, gone)
                for group in window.groups
                if not gone.group(group.group_by.split("+"))
            ),
        )
        for window in table.windows
    )
    incidents = tuple(_prune_incident(incident, gone) for incident in table.incidents)
    own_limits = tuple(
        limit for limit in table.own_limits if not gone.place(limit.group_by, limit.slice)
    )
    return replace(table, windows=windows, incidents=incidents, own_limits=own_limits)


def _prune_incident(incident: ShownIncident, gone: Forgotten) -> ShownIncident:
    """Return the incident; without slice, values and diagnosis if the slice is forgotten."""
    inherited, further = (
        _prune_names(texts, gone) for texts in (incident.inherited, incident.further)
    )
    kept = replace(incident, inherited=inherited, further=further)
    if incident.slice == WITHHELD or not gone.place(incident.group_by, incident.slice):
        return kept
    hidden = replace(kept, group_by="", slice=WITHHELD, share=None, stage=None)
    return replace(hidden, first=None, latest=None)


def _prune_group(group: GroupTable, gone: Forgotten) -> GroupTable:
    """Return a group-by without rows and spreads of forgotten slices."""
    return replace(
        group,
        rows=tuple(_prune_row(row, gone) for row in group.rows if not gone.slice(row.slice)),
        spreads=tuple(s for s in group.spreads if not gone.slice(s.worst) | gone.slice(s.best)),
    )


def _prune_row(row: SliceRow, gone: Forgotten) -> SliceRow:
    gaps = {metric: gap for metric, gap in row.gaps.items() if not gone.slice(gap.reference)}
    return replace(row, gaps=gaps)


def _forget_in_contract(connection: sa.Connection, row: sa.Row[Any], gone: Forgotten) -> None:
    """Remove what is forgotten from a stored contract; delete it if it is about nothing else."""
    this_contract = sa.and_(contract.c.name == row.name, contract.c.version == row.version)
    numbers, record = json.loads(row.numbers), json.loads(row.record)
    if any(gone.slice(f"{name}={value}") for name, value in numbers["where"].items()):
        connection.execute(sa.delete(contract).where(this_contract))
        return
    numbers["group_bys"] = [g for g in numbers["group_bys"] if not gone.group(*g)]
    record["group_bys"] = [
        g for g in record["group_bys"] if not gone.group(g["attributes"], g["reference"])
    ]
    if "own_limits" in numbers:
        kept = [limit for limit in numbers.pop("own_limits") if not gone.place(*limit[:2])]
        numbers |= {"own_limits": kept} if kept else {}
    if "limit" in record:
        record["limit"] = [
            limit
            for limit in record["limit"]
            if not gone.place("+".join(limit["group_by"]), limit["slice"])
        ]
    values = {"numbers": _canonical(numbers), "record": _canonical(record)}
    if values != {"numbers": row.numbers, "record": row.record}:
        connection.execute(sa.update(contract).where(this_contract).values(values))


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

"""Stored incidents, and the acts of people on them.

Only the evaluator writes incidents, in the transaction of a cycle. Acts of people are only added,
and the evaluator reads them every cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import sqlalchemy as sa

from monitor.core.metric import Metric
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.annotations import IncidentKind, Outcome, Share
from monitor.core.publish.incidents import FIRST_ACT, Act, Action, Incident, Stand, standing
from monitor.core.publish.snapshot import PublishedValue, Snapshot
from monitor.core.publish.words import iso_text
from monitor.detection.pages.streams import Stream
from monitor.errors import StoreError
from monitor.store.database import writing
from monitor.store.evaluator.published_values import Forgotten
from monitor.store.schema import crossing, incident_act, incident_crossing, incident_stream
from monitor.store.schema import incident as incident_table

_KEPT = frozenset({"id", "kind", "contract", "metric", "opened_at", "opened_wall", "snapshot"})
"""Columns that are never changed by an update; the last one is the store's own."""
_FIRST = ("first_value", "first_lower", "first_upper", "first_at")
_OF_SLICE = ("group_by", "slice", "share", "further", *_FIRST)
_BETWEEN = "|"  # no name or value contains it
_OWN = tuple(column.name for column in incident_table.c if column.name not in _FIRST)
_OF_ACT = tuple(column.name for column in incident_act.c if column.name != "incident")
_ACTS = (
    sa.select(incident_act)
    .join(incident_table, incident_table.c.id == incident_act.c.incident)
    .order_by(incident_act.c.incident, incident_act.c.number)
)
_OPEN_ACTS = _ACTS.where(incident_table.c.resolved_at.is_(None))

Acts = Mapping[int, tuple[Act, ...]]
"""Acts by id of the incident, in their order; an incident without acts is absent."""


@dataclass(frozen=True, slots=True)
class StoredIncidents:
    """Unresolved incidents and the next id, from which the evaluator goes on.

    Attributes:
        standing: unresolved incidents, by id.
        next_id: id of the next incident.
    """

    standing: tuple[Incident, ...] = ()
    next_id: int = 1


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """Changes of one cycle to incidents: new ones, and new states of stored ones.

    Attributes:
        opened: new incidents.
        changed: present state of stored incidents, resolved ones too. Identity, opening and
            Snapshot
            cannot be changed; crossings are only added.
    """

    opened: Sequence[Incident] = ()
    changed: Sequence[Incident] = ()


def merged(changes: Iterable[IncidentChange]) -> IncidentChange:
    """Merge successive changes into one, with the last state of each incident."""
    opened: dict[int, Incident] = {}
    changed: dict[int, Incident] = {}
    for change in changes:
        opened |= {incident.id: incident for incident in change.opened}
        for incident in change.changed:
            (opened if incident.id in opened else changed)[incident.id] = incident
    return IncidentChange([*opened.values()], [changed[number] for number in sorted(changed)])


def read_standing(connection: sa.Connection) -> StoredIncidents:
    """Return the unresolved incidents with crossings and streams, and the next incident id."""
    newest = connection.execute(sa.select(sa.func.max(incident_table.c.id))).scalar()
    standing = select_incidents(connection, incident_table.c.resolved_at.is_(None))
    return StoredIncidents(tuple(standing), (newest or 0) + 1)


def read_incidents(connection: sa.Connection, *, resolved: bool) -> list[Incident]:
    """Return the unresolved incidents, or resolved ones too, sorted by id."""
    return select_incidents(
        connection, sa.true() if resolved else incident_table.c.resolved_at.is_(None)
    )


def find_incident(connection: sa.Connection, number: int, *, lock: bool = False) -> Incident | None:
    """Return an incident by its id; None where there is none.

    Args:
        connection: a transaction.
        number: id of the incident.
        lock: let nobody else change it, or add to it, until the transaction ends.
    """
    if lock:  # SQLite has no such lock: there all writers take turns anyway
        locked_row = (
            sa.select(incident_table.c.id).where(incident_table.c.id == number).with_for_update()
        )
        connection.execute(locked_row)
    return next(iter(select_incidents(connection, incident_table.c.id == number)), None)


def select_incidents(connection: sa.Connection, where: sa.ColumnElement[bool]) -> list[Incident]:
    """Return the incidents that meet a condition on their table, sorted by id."""
    crossings = _values_by_incident(
        connection, incident_crossing.c.crossing, incident_crossing, where
    )
    streams = _values_by_incident(connection, incident_stream.c.stream, incident_stream, where)
    rows = connection.execute(sa.select(incident_table).where(where).order_by(incident_table.c.id))
    return [_incident(row, crossings[row.id], streams[row.id]) for row in rows]


def _values_by_incident(
    connection: sa.Connection,
    column: sa.Column[Any],
    table: sa.Table,
    where: sa.ColumnElement[bool],
) -> defaultdict[int, list[Any]]:
    """Return the values of ``column`` (crossing or stream) by id of the incident, sorted."""
    query = sa.select(table.c.incident, column).join(
        incident_table, incident_table.c.id == table.c.incident
    )
    values_by_incident: defaultdict[int, list[Any]] = defaultdict(list)
    for number, value in connection.execute(query.where(where)).all():
        values_by_incident[number].append(value)
    for values in values_by_incident.values():
        values.sort()  # sorted in Python, since each database sorts texts by its own rules
    return values_by_incident


def _incident(row: sa.Row[Any], crossings: Sequence[int], streams: Sequence[str]) -> Incident:
    """Return an incident from its row, its crossings and its streams."""
    shown = row.first_at is not None
    return Incident(
        **_values(row, _OWN)
        | {
            "kind": IncidentKind(row.kind),
            "metric": Metric(row.metric),
            "share": None if row.share is None else Share(row.share),
            "further": () if row.further is None else tuple(row.further.split(_BETWEEN)),
        },
        first=PublishedValue(*_values(row, _FIRST).values()) if shown else None,
        crossings=tuple(crossings),
        streams=tuple(streams),
    )


def _values(record: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the named attributes of a record by name, with enums as their values."""
    values = {name: getattr(record, name) for name in names}
    return {name: v.value if isinstance(v, Enum) else v for name, v in values.items()}


def write_incidents(connection: sa.Connection, change: IncidentChange) -> None:
    """Insert opened incidents and update changed ones, with their crossings and streams.

    Args:
        connection: the transaction of the cycle, after its crossings were written.
        change: the changes. An id that exists already, or a crossing that belongs to another
            incident, is an error of the database.
    """
    opened = [_row(incident) for incident in change.opened]
    if opened:
        connection.execute(sa.insert(incident_table), opened)
    for incident in change.changed:
        values = {name: value for name, value in _row(incident).items() if name not in _KEPT}
        connection.execute(
            sa.update(incident_table).where(incident_table.c.id == incident.id).values(values)
        )
    if not (written := (*change.opened, *change.changed)):
        return  # as in nearly every cycle
    _write_streams(connection, written)
    _write_crossings(connection, written)


def _row(incident: Incident) -> dict[str, Any]:
    """Return an incident as the columns of its row."""
    first = {name: getattr(incident.first, name.removeprefix("first_"), None) for name in _FIRST}
    further = _BETWEEN.join(incident.further) if incident.further else None
    return {**_values(incident, _OWN), **first, "further": further}


def _write_streams(connection: sa.Connection, written: Collection[Incident]) -> None:
    """Replace the stored streams of these incidents."""
    numbers = [incident.id for incident in written]
    connection.execute(sa.delete(incident_stream).where(incident_stream.c.incident.in_(numbers)))
    rows = [
        {"incident": incident.id, "stream": key} for incident in written for key in incident.streams
    ]
    if rows:
        connection.execute(sa.insert(incident_stream), rows)


def _write_crossings(connection: sa.Connection, written: Collection[Incident]) -> None:
    """Insert the crossings of these incidents that are not stored yet."""
    stored = _members(connection, [incident.id for incident in written])
    rows = [
        {"crossing": number, "incident": incident.id}
        for incident in written
        for number in incident.crossings
        if (number, incident.id) not in stored
    ]
    if rows:
        connection.execute(sa.insert(incident_crossing), rows)


def _members(connection: sa.Connection, numbers: Collection[int]) -> set[tuple[int, int]]:
    belongs = incident_crossing.c
    query = sa.select(belongs.crossing, belongs.incident).where(belongs.incident.in_(numbers))
    return {(row.crossing, row.incident) for row in connection.execute(query)}


def note_snapshot(connection: sa.Connection, snapshot: Snapshot, number: int) -> None:
    """Record a Snapshot's number on the incidents that it is the first to report.

    Args:
        connection: the transaction in which the Snapshot is stored.
        snapshot: the Snapshot; incidents that have a link keep it.
        number: number of the Snapshot.
    """
    reported = [incident.id for table in snapshot.contracts for incident in table.incidents]
    if reported:
        first = sa.update(incident_table).where(
            incident_table.c.id.in_(reported), incident_table.c.snapshot.is_(None)
        )
        connection.execute(first.values(snapshot=number))


def forget_incidents(connection: sa.Connection, gone: Forgotten) -> None:
    """Remove forgotten names from incidents; resolve those left without stream or open crossing.

    The incidents stay. An incident without an unresolved crossing or a stream is resolved. Call
    this after the crossings were forgotten.
    """
    for incident in read_incidents(connection, resolved=True):
        left = [key for key in incident.streams if not gone.stream(Stream.parse(key))]
        values: dict[str, int | str | None] = dict(_forgotten(incident, gone))
        if len(left) < len(incident.streams):
            removed = sa.delete(incident_stream).where(incident_stream.c.incident == incident.id)
            connection.execute(removed.where(incident_stream.c.stream.not_in(left)))
        if incident.resolved_at is None and not left:
            values.update(_resolved(connection, incident))
        if values:
            connection.execute(
                sa.update(incident_table).where(incident_table.c.id == incident.id).values(values)
            )


def _forgotten(incident: Incident, gone: Forgotten) -> Iterator[tuple[str, str | None]]:
    if incident.group_by is None or incident.slice is None:
        return
    kept = [text for text in incident.further if not gone.slice(text)]
    if len(kept) < len(incident.further):
        yield "further", _BETWEEN.join(kept) or None
    if gone.place(incident.group_by, incident.slice):
        yield from ((name, None) for name in _OF_SLICE)


def _resolved(connection: sa.Connection, incident: Incident) -> Mapping[str, int]:
    """Return ``resolved_at`` as a column value, by the last crossing; empty while one is open."""
    query = sa.select(crossing.c.resolved_at).where(crossing.c.id.in_(incident.crossings))
    ends = connection.execute(query).scalars().all()
    if None in ends:
        return {}
    return {"resolved_at": max((incident.opened_at, *(end for end in ends if end is not None)))}


def acknowledge(engine: sa.Engine, number: int, act_input: ActInput, now: int) -> Act:
    """Record that somebody is handling an incident, even a resolved one; return the act.

    Raises:
        StoreError: there is no such incident.
    """
    return _add(engine, number, None, act_input, now)


def close(engine: sa.Engine, number: int, closing: Closing, act_input: ActInput, now: int) -> Act:
    """Record how an incident ended; return the act, which the evaluator applies in its next cycle.

    Raises:
        StoreError: there is no such incident, or it was resolved or closed before.
    """
    return _add(engine, number, closing, act_input, now)


def _add(
    engine: sa.Engine, number: int, closing: Closing | None, act_input: ActInput, now: int
) -> Act:
    """Store an act on an incident and return it; an error if there is no such open incident."""
    with writing(engine) as connection:
        # Locked, so that the second of two people who act at once sees the act of the first.
        incident = find_incident(connection, number, lock=True)
        if incident is None:
            raise StoreError(
                f"there is no incident {number}; those there are: slicewatch incident list --all"
            )
        acts = read_acts(connection, incident_table.c.id == number).get(number, ())
        if closing is not None:
            _require_standing(incident, acts, now)
        act = Act(
            number=len(acts) + FIRST_ACT,
            at=now,
            action=Action.ACK if closing is None else Action.CLOSE,
            by=act_input.by,
            outcome=None if closing is None else closing.outcome,
            until=None if closing is None else closing.until,
            note=act_input.note,
        )
        connection.execute(sa.insert(incident_act).values(incident=number, **_values(act, _OF_ACT)))
    return act


def _require_standing(incident: Incident, acts: tuple[Act, ...], now: int) -> None:
    """Raise an error if an incident is closed or resolved."""
    status = standing(incident, acts, now)
    if status.state is Stand.CLOSED:
        raise StoreError(f"incident {incident.id} was closed at {iso_text(status.at)} already")
    if status.state is Stand.RESOLVED:
        resolved = iso_text(incident.resolved_at)
        raise StoreError(f"incident {incident.id} was resolved at {resolved} already")


def read_acts(connection: sa.Connection, where: sa.ColumnElement[bool] | None = None) -> Acts:
    """Return acts by incident id, of incidents that meet a condition (default: unresolved)."""
    acts_by_incident: dict[int, list[Act]] = {}
    for row in connection.execute(_OPEN_ACTS if where is None else _ACTS.where(where)):
        acts_by_incident.setdefault(row.incident, []).append(_act(row))
    return {number: tuple(acts) for number, acts in acts_by_incident.items()}


def _act(row: sa.Row[Any]) -> Act:
    outcome = None if row.outcome is None else Outcome(row.outcome)
    return Act(**_values(row, _OF_ACT) | {"action": Action(row.action), "outcome": outcome})

"""Incidents as they are stored, and what people said of them.

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

from monitor.core.contract import Metric
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.annotations import IncidentKind, Outcome, Share
from monitor.core.publish.incidents import FIRST_ACT, Act, Action, Incident, Stand, standing
from monitor.core.publish.snapshot import PublishedValue, Snapshot
from monitor.core.time import to_datetime
from monitor.detection.pages.streams import Stream
from monitor.errors import StoreError
from monitor.store.database import writing
from monitor.store.evaluator.published_values import Forgotten
from monitor.store.schema import (
    crossing,
    incident,
    incident_act,
    incident_crossing,
    incident_stream,
)

_KEPT = frozenset({"id", "kind", "contract", "metric", "opened_at", "opened_wall", "snapshot"})
"""Columns that stay as they were written; the last one is the store's own."""
_FIRST = ("first_value", "first_lower", "first_upper", "first_at")
_OF_SLICE = ("group_by", "slice", "share", *_FIRST)
_OWN = tuple(column.name for column in incident.c if column.name not in _FIRST)
_OF_ACT = tuple(column.name for column in incident_act.c if column.name != "incident")
_ACTS = (
    sa.select(incident_act)
    .join(incident, incident.c.id == incident_act.c.incident)
    .order_by(incident_act.c.incident, incident_act.c.number)
)
_OPEN_ACTS = _ACTS.where(incident.c.resolved_at.is_(None))

Acts = Mapping[int, tuple[Act, ...]]
"""By id of the incident, in their order; an incident without acts is absent."""


@dataclass(frozen=True, slots=True)
class StoredIncidents:
    """Stored incidents that the evaluator goes on from.

    Attributes:
        standing: those that are not resolved, by id.
        next_id: of the next one.
    """

    standing: tuple[Incident, ...] = ()
    next_id: int = 1


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """Changes of one cycle to incidents.

    Attributes:
        opened: new ones.
        changed: known ones as they are now, resolved ones too. Identity, opening and Snapshot
            cannot be changed; crossings are only added.
    """

    opened: Sequence[Incident] = ()
    changed: Sequence[Incident] = ()


def merged(changes: Iterable[IncidentChange]) -> IncidentChange:
    """Several changes, one after the other, as one: of each incident its last state."""
    opened: dict[int, Incident] = {}
    changed: dict[int, Incident] = {}
    for change in changes:
        opened |= {one.id: one for one in change.opened}
        for one in change.changed:
            (opened if one.id in opened else changed)[one.id] = one
    return IncidentChange([*opened.values()], [changed[number] for number in sorted(changed)])


def read_standing(connection: sa.Connection) -> StoredIncidents:
    """Those that are not resolved, with their crossings and streams."""
    newest = connection.execute(sa.select(sa.func.max(incident.c.id))).scalar()
    standing = select_incidents(connection, incident.c.resolved_at.is_(None))
    return StoredIncidents(tuple(standing), (newest or 0) + 1)


def read_incidents(connection: sa.Connection, *, resolved: bool) -> list[Incident]:
    """Incidents that are not resolved, or ``resolved`` ones too, by id."""
    return select_incidents(connection, sa.true() if resolved else incident.c.resolved_at.is_(None))


def find_incident(connection: sa.Connection, number: int, *, lock: bool = False) -> Incident | None:
    """One incident; None where there is none.

    Args:
        connection: a transaction.
        number: id.
        lock: let nobody else change it, or add to it, until the transaction ends.
    """
    if lock:  # SQLite has no such lock: there all writers take turns anyway
        one = sa.select(incident.c.id).where(incident.c.id == number).with_for_update()
        connection.execute(one)
    return next(iter(select_incidents(connection, incident.c.id == number)), None)


def select_incidents(connection: sa.Connection, where: sa.ColumnElement[bool]) -> list[Incident]:
    """Incidents that fit a condition on their table, by id."""
    crossings = _links(connection, incident_crossing.c.crossing, incident_crossing, where)
    streams = _links(connection, incident_stream.c.stream, incident_stream, where)
    rows = connection.execute(sa.select(incident).where(where).order_by(incident.c.id))
    return [_incident(row, crossings[row.id], streams[row.id]) for row in rows]


def _links(
    connection: sa.Connection,
    column: sa.Column[Any],
    table: sa.Table,
    where: sa.ColumnElement[bool],
) -> defaultdict[int, list[Any]]:
    """Crossings or streams of incidents by id, sorted."""
    query = sa.select(table.c.incident, column).join(incident, incident.c.id == table.c.incident)
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for number, value in connection.execute(query.where(where)).all():
        found[number].append(value)
    for values in found.values():
        values.sort()  # here, since databases sort texts each in a way of its own
    return found


def _incident(row: sa.Row[Any], crossings: Sequence[int], streams: Sequence[str]) -> Incident:
    shown = row.first_at is not None
    return Incident(
        **_values(row, _OWN)
        | {
            "kind": IncidentKind(row.kind),
            "metric": Metric(row.metric),
            "share": None if row.share is None else Share(row.share),
        },
        first=PublishedValue(*_values(row, _FIRST).values()) if shown else None,
        crossings=tuple(crossings),
        streams=tuple(streams),
    )


def _values(one: object, names: Iterable[str]) -> dict[str, Any]:
    """Values by name, as they are stored."""
    values = {name: getattr(one, name) for name in names}
    return {name: v.value if isinstance(v, Enum) else v for name, v in values.items()}


def write_incidents(connection: sa.Connection, change: IncidentChange) -> None:
    """Write what a cycle changes.

    Args:
        connection: the transaction of the cycle, after its crossings were written.
        change: what to write. An id that was given before, or a crossing that belongs to another
            incident, is an error of the database.
    """
    opened = [_row(one) for one in change.opened]
    if opened:
        connection.execute(sa.insert(incident), opened)
    for one in change.changed:
        values = {name: value for name, value in _row(one).items() if name not in _KEPT}
        connection.execute(sa.update(incident).where(incident.c.id == one.id).values(values))
    if not (written := (*change.opened, *change.changed)):
        return  # as in nearly every cycle
    _write_streams(connection, written)
    _write_crossings(connection, written)


def _row(one: Incident) -> dict[str, Any]:
    first = dict.fromkeys(_FIRST)
    if one.first is not None:
        shown = (one.first.value, one.first.lower, one.first.upper, one.first.at)
        first = dict(zip(_FIRST, shown, strict=True))
    return {**_values(one, _OWN), **first}


def _write_streams(connection: sa.Connection, written: Collection[Incident]) -> None:
    numbers = [one.id for one in written]
    connection.execute(sa.delete(incident_stream).where(incident_stream.c.incident.in_(numbers)))
    rows = [{"incident": one.id, "stream": key} for one in written for key in one.streams]
    if rows:
        connection.execute(sa.insert(incident_stream), rows)


def _write_crossings(connection: sa.Connection, written: Collection[Incident]) -> None:
    known = _members(connection, [one.id for one in written])
    rows = [
        {"crossing": number, "incident": one.id}
        for one in written
        for number in one.crossings
        if (number, one.id) not in known
    ]
    if rows:
        connection.execute(sa.insert(incident_crossing), rows)


def _members(connection: sa.Connection, numbers: Collection[int]) -> set[tuple[int, int]]:
    belongs = incident_crossing.c
    query = sa.select(belongs.crossing, belongs.incident).where(belongs.incident.in_(numbers))
    return {(row.crossing, row.incident) for row in connection.execute(query)}


def note_snapshot(connection: sa.Connection, snapshot: Snapshot, number: int) -> None:
    """Link the incidents that no Snapshot has reported before to this one.

    Args:
        connection: the transaction in which the Snapshot is stored.
        snapshot: the one that reports them.
        number: its own.
    """
    told = [one.id for table in snapshot.contracts for one in table.incidents]
    if told:
        first = sa.update(incident).where(incident.c.id.in_(told), incident.c.snapshot.is_(None))
        connection.execute(first.values(snapshot=number))


def forget_incidents(connection: sa.Connection, gone: Forgotten) -> None:
    """Forget which slices incidents were of, where what these name is removed.

    That there was one stays known. One without an unresolved crossing or a stream is resolved. To
    be called after the crossings were forgotten.
    """
    for one in read_incidents(connection, resolved=True):
        left = [key for key in one.streams if not gone.stream(Stream.parse(key))]
        values: dict[str, int | None] = dict(_forgotten(one, gone))
        if len(left) < len(one.streams):
            removed = sa.delete(incident_stream).where(incident_stream.c.incident == one.id)
            connection.execute(removed.where(incident_stream.c.stream.not_in(left)))
        if one.resolved_at is None and not left:
            values.update(_resolved(connection, one))
        if values:
            connection.execute(sa.update(incident).where(incident.c.id == one.id).values(values))


def _forgotten(one: Incident, gone: Forgotten) -> Iterator[tuple[str, None]]:
    if one.group_by is None or one.slice is None:
        return
    if gone.group(one.group_by.split("+")) or gone.slice(one.slice):
        yield from ((name, None) for name in _OF_SLICE)


def _resolved(connection: sa.Connection, one: Incident) -> Mapping[str, int]:
    """Time when the last crossing of an incident was resolved; empty while one is unresolved."""
    query = sa.select(crossing.c.resolved_at).where(crossing.c.id.in_(one.crossings))
    ends = connection.execute(query).scalars().all()
    if None in ends:
        return {}
    return {"resolved_at": max((one.opened_at, *(end for end in ends if end is not None)))}


def acknowledge(engine: sa.Engine, number: int, said: ActInput, now: int) -> Act:
    """Put on record that somebody looks after an incident, also when it is over.

    Raises:
        StoreError: there is no such incident.
    """
    return _add(engine, number, None, said, now)


def close(engine: sa.Engine, number: int, closing: Closing, said: ActInput, now: int) -> Act:
    """Put on record what an incident came to; the evaluator acts on it in its next cycle.

    Raises:
        StoreError: there is no such incident, or it was resolved or closed before.
    """
    return _add(engine, number, closing, said, now)


def _add(engine: sa.Engine, number: int, closing: Closing | None, said: ActInput, now: int) -> Act:
    with writing(engine) as connection:
        # Locked, so that of two people who act at once the second sees what the first has done.
        found = find_incident(connection, number, lock=True)
        if found is None:
            raise StoreError(
                f"there is no incident {number}; those there are: slicewatch incident list --all"
            )
        acts = read_acts(connection, incident.c.id == number).get(number, ())
        if closing is not None:
            _require_standing(found, acts, now)
        act = Act(
            number=len(acts) + FIRST_ACT,
            at=now,
            action=Action.ACK if closing is None else Action.CLOSE,
            by=said.by,
            outcome=None if closing is None else closing.outcome,
            until=None if closing is None else closing.until,
            note=said.note,
        )
        connection.execute(sa.insert(incident_act).values(incident=number, **_values(act, _OF_ACT)))
    return act


def _require_standing(found: Incident, acts: tuple[Act, ...], now: int) -> None:
    how = standing(found, acts, now)
    if how.state is Stand.CLOSED:
        raise StoreError(f"incident {found.id} was closed at {_moment(how.at)} already")
    if how.state is Stand.RESOLVED:
        resolved = _moment(found.resolved_at)
        raise StoreError(f"incident {found.id} was resolved at {resolved} already")


def _moment(at: int | None) -> str:
    return to_datetime(at or 0).isoformat(timespec="seconds")


def read_acts(connection: sa.Connection, where: sa.ColumnElement[bool] | None = None) -> Acts:
    """Acts on the incidents that fit a condition; on the unresolved ones where none is given."""
    found: dict[int, list[Act]] = {}
    for row in connection.execute(_OPEN_ACTS if where is None else _ACTS.where(where)):
        found.setdefault(row.incident, []).append(_act(row))
    return {number: tuple(acts) for number, acts in found.items()}


def _act(row: sa.Row[Any]) -> Act:
    outcome = None if row.outcome is None else Outcome(row.outcome)
    return Act(**_values(row, _OF_ACT) | {"action": Action(row.action), "outcome": outcome})

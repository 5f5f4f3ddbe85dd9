"""Acts of people on incidents: they are only added, and the evaluator reads them every cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from monitor.core.publish.annotations import Outcome
from monitor.core.publish.incidents import FIRST_ACT, Act, Action, Incident, Stand, standing
from monitor.core.time import to_datetime
from monitor.errors import StoreError
from monitor.store.database import writing
from monitor.store.evaluator.incidents import find_incident
from monitor.store.schema import incident, incident_act

Acts = Mapping[int, tuple[Act, ...]]
"""By id of the incident, in their order; an incident without acts is absent."""


@dataclass(frozen=True, slots=True)
class ActInput:
    """Author of an act, and the note on it.

    Attributes:
        by: a person or a team, in one line.
        note: one line; may be empty.
    """

    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Closing:
    """Outcome with which people close an incident.

    Attributes:
        outcome: in a word.
        until: of ``accepted``, and of nothing else: the instant from which on it pages again.
    """

    outcome: Outcome
    until: int | None = None


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
        connection.execute(sa.insert(incident_act).values(incident=number, **_columns(act)))
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


def _columns(act: Act) -> dict[str, Any]:
    return {
        "number": act.number,
        "at": act.at,
        "action": act.action.value,
        "by": act.by,
        "outcome": None if act.outcome is None else act.outcome.value,
        "until": act.until,
        "note": act.note,
    }


def read_acts(connection: sa.Connection, where: sa.ColumnElement[bool] | None = None) -> Acts:
    """Acts on the incidents that fit a condition; on the unresolved ones where none is given."""
    wanted = incident.c.resolved_at.is_(None) if where is None else where
    rows = connection.execute(
        sa.select(incident_act)
        .join(incident, incident.c.id == incident_act.c.incident)
        .where(wanted)
        .order_by(incident_act.c.incident, incident_act.c.number)
    )
    found: dict[int, list[Act]] = {}
    for row in rows:
        found.setdefault(row.incident, []).append(_act(row))
    return {number: tuple(acts) for number, acts in found.items()}


def _act(row: sa.Row[Any]) -> Act:
    return Act(
        number=row.number,
        at=row.at,
        action=Action(row.action),
        by=row.by,
        outcome=None if row.outcome is None else Outcome(row.outcome),
        until=row.until,
        note=row.note,
    )

"""Removal of unlisted attributes and values from the store, with right counts.

This is one transaction, at a person's command. A removed value is counted as ``__other__``,
decisions lose a removed attribute, and cells that become equal are added up. The store is then as
if the name had never been listed. Workers and the evaluator are fenced, and must be started with
the new settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import MISSING, OTHER, Int64s, atom_text, content_id, parse_atom
from monitor.core.counts.coding import Coding, CodingHistory, CodingVersion
from monitor.flushes import Dictionary
from monitor.store import bulk, deltas
from monitor.store.codings import fence_all, lock_eras, read_eras, refuse_fixed, write_eras
from monitor.store.database import writing
from monitor.store.dictionary_rows import write_dictionary
from monitor.store.evaluator.calendar_tables import forget_calendar
from monitor.store.evaluator.pane_sums import SUMS
from monitor.store.evaluator.published_values import Forgotten, forget_published
from monitor.store.evaluator.stored_detection import forget_detection
from monitor.store.evaluator.stored_incidents import forget_incidents
from monitor.store.schema import COUNTER_COLUMNS, atom, cell, cohort, counts, delta, route_cohort

_NAMES = ", ".join(COUNTER_COLUMNS)

Recoded = Mapping[int, int]
"""New cell id (or atom id) by removed id."""


def drop_unlisted(engine: sa.Engine, coding: Coding) -> tuple[str, ...]:
    """Remove names and values that ``coding`` does not list; return those that the store had.

    Raises:
        StoreError: the settings changed in more than their lists.
    """
    with writing(engine) as connection:
        lock_eras(connection)
        stored = read_eras(connection)
        gone = coding.lacks(stored.newest) if stored is not None else ()
        if stored is None or not gone:
            return ()
        refuse_fixed(stored.newest, coding)
        fence_all(connection)
        write_eras(connection, _eras_within(stored, coding))
        recoded = _recode_cells(connection, stored.newest.within(coding))
        _recode_counts(connection, recoded)
        _recode_pending(connection, recoded)
        _recode_deltas(connection, recoded)
        for table in (cohort, route_cohort):
            _recode_cohorts(connection, table, recoded)
        listed = stored.newest.listed - coding.listed
        forget_published(connection, listed)
        forget_detection(connection, Forgotten(listed))
        forget_incidents(connection, Forgotten(listed))
        forget_calendar(connection, listed)
    return gone


def _eras_within(eras: CodingHistory, coding: Coding) -> CodingHistory:
    """Return the eras reduced to listed names and values; equal neighbours become one era."""
    kept: list[CodingVersion] = []
    for era in eras.eras:
        left = replace(era, coding=era.coding.within(coding))
        if not kept or kept[-1].coding.hash != left.coding.hash:
            kept.append(left)
    return CodingHistory(tuple(kept))


def _recode_cells(connection: sa.Connection, kept: Coding) -> Recoded:
    """Replace cells and atoms that name unlisted values; return the new cell id by old id."""
    texts = {
        row.id: new
        for row in connection.execute(sa.select(atom)).all()
        if (new := _atom_within(row.text, kept)) != row.text
    }
    recoded: dict[int, int] = {}
    cells: dict[int, tuple[int, int, int]] = {}
    for row in connection.execute(sa.select(cell)).all():
        if row.atom in texts:
            atom_id = content_id(texts[row.atom])
            recoded[row.id] = content_id(f"{atom_id}/{row.version}/{row.stratum}")
            cells[recoded[row.id]] = (atom_id, row.version, row.stratum)
    atoms = {content_id(text): text for text in texts.values()}
    write_dictionary(connection, Dictionary(atoms, {}, cells))
    bulk.delete(connection, cell, {"id": sorted(recoded)})
    bulk.delete(connection, atom, {"id": sorted(texts)})
    return recoded


def _atom_within(text: str, kept: Coding) -> str:
    """Return an atom with other values and attributes than the coding lists left out."""
    listed = {a.name: {*a.values, OTHER, MISSING} for a in kept.attributes}
    return atom_text(
        {
            name: value if value in listed[name] else OTHER
            for name, value in parse_atom(text).items()
            if name in listed
        }
    )


def _recode_counts(connection: sa.Connection, recoded: Recoded) -> None:
    """Add the counts of cells that are merged to their new cells, and delete the old ones."""
    _for_each(
        connection,
        recoded,
        f"INSERT INTO counts (grain, pane, cell, {_NAMES}) SELECT grain, pane, w.atom, {SUMS}"
        " FROM counts JOIN w ON w.id = counts.cell WHERE true GROUP BY grain, pane, w.atom"
        f" ON CONFLICT {bulk.adding_to(counts, COUNTER_COLUMNS)}",
    )
    _for_each(connection, recoded, "DELETE FROM counts WHERE cell IN (SELECT id FROM w)")


def _recode_pending(connection: sa.Connection, recoded: Recoded) -> None:
    _for_each(
        connection, recoded, "UPDATE pending SET cell = w.atom FROM w WHERE w.id = pending.cell"
    )


def _for_each(connection: sa.Connection, recoded: Recoded, statement: str) -> None:
    """Run a statement that reads the recoded ids from a table ``w(id, atom)``: old, new."""
    for head, parameters in bulk.with_keys(
        connection, cell, ("id", "atom"), sorted(recoded.items())
    ):
        connection.exec_driver_sql(head + statement, parameters)


def _recode_deltas(connection: sa.Connection, recoded: Recoded) -> None:
    """Rewrite the stored deltas that hold cells that are merged."""
    columns = _columns(recoded)
    for row in _payloads(connection):
        if (body := _recode_payload(row.payload, *columns)) is not None:
            connection.execute(
                sa.update(delta)
                .where(delta.c.topic == row.topic, delta.c.part == row.part, delta.c.seq == row.seq)
                .values(payload=body)
            )


def _recode_cohorts(connection: sa.Connection, table: sa.Table, recoded: Recoded) -> None:
    """Rewrite the stored hours of ``table`` that hold cells that are merged."""
    columns = _columns(recoded)
    for hour in connection.execute(sa.select(table.c.hour)).scalars().all():
        own_row = table.c.hour == hour
        payload = connection.execute(sa.select(table.c.payload).where(own_row)).scalar()
        if payload is None:
            continue  # retention has deleted it meanwhile
        if (body := _recode_payload(payload, *columns)) is not None:
            connection.execute(sa.update(table).where(own_row).values(payload=body))


def _columns(recoded: Recoded) -> tuple[Int64s, Int64s]:
    """Return the old ids, increasing, and the new id of each, as two arrays."""
    old = sorted(recoded)
    return np.array(old, np.int64), np.array([recoded[key] for key in old], np.int64)


def _recode_payload(data: bytes, old: Int64s, new: Int64s) -> bytes | None:
    """Return the encoded payload with the new cells; None where nothing changes."""
    body = deltas.decode(data)
    if not np.isin(body.cells, old).any():
        return None
    return deltas.encode(deltas.summed(replace(body, cells=_mapped(body.cells, old, new))))


def _mapped(cells: Int64s, old: Int64s, new: Int64s) -> Int64s:
    places = np.minimum(np.searchsorted(old, cells), len(old) - 1)
    return np.where(old[places] == cells, new[places], cells)


def _payloads(connection: sa.Connection) -> Iterator[Any]:
    """Yield the rows of all deltas with their payloads, read one at a time.

    Deltas that retention deletes meanwhile are left out.
    """
    keys = connection.execute(sa.select(delta.c.topic, delta.c.part, delta.c.seq)).all()
    for topic, part, seq in keys:
        row = connection.execute(
            sa.select(delta.c.topic, delta.c.part, delta.c.seq, delta.c.payload).where(
                delta.c.topic == topic, delta.c.part == part, delta.c.seq == seq
            )
        ).one_or_none()
        if row is not None:
            yield row

"""What the store counted, read with plain SQL."""

from __future__ import annotations

from collections import Counter

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import COUNTERS, Counts
from monitor.core.time import HOUR, Grain, pane_of
from monitor.store.schema import COUNTER_COLUMNS


def sum_counts(engine: sa.Engine, grain: Grain, first: int = 0, end: int = 1 << 40) -> Counts:
    """Everything counted in the panes ``first`` to ``end`` (exclusive), added up by cell."""
    sums = ", ".join(f"SUM({name})" for name in COUNTER_COLUMNS)
    query = (
        f"SELECT cell, {sums} FROM counts"
        " WHERE grain = :grain AND pane >= :first AND pane < :end GROUP BY cell ORDER BY cell"
    )
    with engine.connect() as connection:
        found = connection.execute(
            sa.text(query), {"grain": int(grain), "first": first, "end": end}
        ).all()
    rows = [tuple(map(int, row)) for row in found]
    table = np.array(rows, np.int64).reshape(len(rows), COUNTERS + 1)
    return Counts(table[:, 0], table[:, 1:])


def check_released(engine: sa.Engine, first_hour: int) -> None:
    """Nothing counted is lost or twice in what may be published and what is held back.

    Args:
        engine: the store, after an evaluation; every contract hides nothing, or nothing came late.
        first_hour: since when all hours are kept.
    """
    tables = ("released", "held_back", "counts")
    released, held_back, counts = (_hours(engine, table, first_hour) for table in tables)
    assert released + held_back == counts
    closed = _closed(engine)
    if closed is not None:
        last = pane_of(closed, Grain.HOUR)
        first = max(first_hour, last - 24)
        by_pane = _decided(engine, Grain.MINUTES5, first, last)
        by_hour = _decided(engine, Grain.HOUR, first, last)
        assert by_pane == by_hour, "the shortest window counts as the others do"


class Sums(Counter[tuple[int, ...]]):
    """Numbers by key; those that are zero are not there."""

    def __add__(self, other: Counter[tuple[int, ...]]) -> Sums:  # type: ignore[override]
        """Added up, negative ones too."""
        keys = {*self, *other}
        return Sums({key: n for key in keys if (n := self[key] + other[key])})


def _hours(engine: sa.Engine, table: str, first: int) -> Sums:
    """Every counter by hour and cell: (pane, cell, number of the counter) -> what it says."""
    grain = "" if table == "held_back" else f" AND grain = {int(Grain.HOUR)}"
    query = (
        f"SELECT pane, cell, {', '.join(COUNTER_COLUMNS)} FROM {table} WHERE pane >= {first}{grain}"
    )
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(query).all()
    return Sums({(row[0], row[1], i): n for row in rows for i, n in enumerate(row[2:]) if n})


def _decided(engine: sa.Engine, grain: Grain, first: int, end: int) -> Sums:
    """Decisions by hour, atom, route and kind of traffic."""
    an_hour = HOUR // grain
    query = (
        "SELECT pane, atom, stratum, n FROM released JOIN cell ON cell.id = released.cell"
        f" WHERE grain = {int(grain)} AND pane >= {first * an_hour} AND pane < {end * an_hour}"
    )
    found: Sums = Sums()
    with engine.connect() as connection:
        for pane, atom, stratum, n in connection.exec_driver_sql(query):
            found[pane // an_hour, atom, stratum >> 11] += n
    return found + Sums()


def _closed(engine: sa.Engine) -> int | None:
    """Event time up to which panes are closed."""
    with engine.connect() as connection:
        at: int | None = connection.exec_driver_sql(
            "SELECT at FROM release_mark WHERE name = 'decisions'"
        ).scalar()
    return at

"""What the store counted, read with plain SQL."""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import COUNTERS, Counts
from monitor.core.tables.reader import Measure
from monitor.core.tables.spans import SpanKind
from monitor.core.time import HOUR, Grain
from monitor.store.evaluator.calendar_tables import read_tables
from monitor.store.schema import COUNTER_COLUMNS, calendar_layout


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


def check_tables(engine: sa.Engine, first_hour: int) -> None:
    """Assert that no published hour has more decisions than were counted in it.

    Args:
        engine: the store, after an evaluation.
        first_hour: since when all hours are kept.
    """
    hours = "SELECT pane, SUM(n) FROM counts WHERE grain = :grain GROUP BY pane"
    with engine.connect() as connection:
        rows = connection.execute(sa.text(hours), {"grain": int(Grain.HOUR)}).all()
        counted = {pane * HOUR: int(total) for pane, total in rows}
        use_cases = connection.execute(sa.select(calendar_layout.c.use_case).distinct()).scalars()
        for use_case in use_cases.all():
            for table in read_tables(
                connection, use_case, first_hour * HOUR, kinds=[SpanKind.HOUR]
            ):
                if table.measure is Measure.DECISIONS:
                    published = int(table.bands.low[0, 1:].sum())
                    assert published <= counted.get(table.span.start, 0), table.span

"""Sums of all counts in a span, published or not.

UTC days are read as days, and only the hours left at a span's ends as hours: days are kept much
longer than hours.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import COUNTERS, Counter, Counts, merge
from monitor.core.tables.spans import Span
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.store import bulk
from monitor.store.schema import COUNTER_COLUMNS

_READ = (
    *(Counter.N, Counter.Q, Counter.LABELLED, Counter.READY),
    *(Counter.UNDECIDABLE, Counter.REVISED),
    *(Counter.PAIRS_READY, Counter.PAIRS_NOT_READY, Counter.PAIRS_APART),
)
_NAMES = [COUNTER_COLUMNS[counter] for counter in _READ]
_SUMS = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in _NAMES)
_WITHIN = "FROM counts WHERE grain = :grain AND pane >= :first AND pane < :end"


def span_sums(connection: sa.Connection, span: Span) -> Counts:
    """Return the counts of a span by cell; only counters that tables show are set."""
    return merge(_sums(connection, *panes) for panes in panes_of(span))


def hour_sums(connection: sa.Connection, start: int, end: int) -> Counts:
    """Return the counts of hours between two instants by cell; columns as in :func:`span_sums`."""
    return _sums(connection, Grain.HOUR, pane_of(start, Grain.HOUR), pane_of(end, Grain.HOUR))


def panes_of(span: Span) -> Iterator[tuple[Grain, int, int]]:
    """Yield (grain, first, end) pane ranges that tile a span: whole days, and hours at the edges.

    Example:
        >>> from monitor.core.tables.spans import SpanKind
        >>> [(grain.name, end - first) for grain, first, end in panes_of(Span(SpanKind.WEEK, 0, 2))]
        [('HOUR', 2), ('DAY', 6), ('HOUR', 22)]
    """
    first_day, end_day = -(-span.start // DAY) * DAY, span.end // DAY * DAY
    if first_day >= end_day:
        first_day = end_day = span.end
    for grain, start, end in (
        (Grain.HOUR, span.start, first_day),
        (Grain.DAY, first_day, end_day),
        (Grain.HOUR, end_day, span.end),
    ):
        if start < end:
            yield grain, pane_of(start, grain), pane_of(end, grain)


def first_day(connection: sa.Connection) -> int | None:
    """Return the start (microseconds) of the oldest UTC day with counts; None without any."""
    query = bulk.parsed("SELECT MIN(pane) FROM counts WHERE grain = :grain")
    day: int | None = connection.execute(query, {"grain": int(Grain.DAY)}).scalar()
    return None if day is None else pane_start(day, Grain.DAY)


def _sums(connection: sa.Connection, grain: Grain, first: int, end: int) -> Counts:
    """Return counts by cell, summed over the panes ``first`` to ``end`` (exclusive)."""
    single = end - first == 1  # a pane has one row per cell
    columns, group = (", ".join(_NAMES), "") if single else (_SUMS, " GROUP BY cell")
    query = f"SELECT cell, {columns} {_WITHIN}{group} ORDER BY cell"
    where = {"grain": int(grain), "first": first, "end": end}
    table = bulk.read_integers(connection, query, len(_READ) + 1, where)
    values = np.zeros((len(table), COUNTERS), np.int64)
    values[:, _READ] = table[:, 1:]
    return Counts(table[:, 0], values)

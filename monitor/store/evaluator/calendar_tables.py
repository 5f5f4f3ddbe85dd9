"""Stored calendar tables: written once, in the transaction of a cycle, and never changed.

A table is stored as the bands of its rows. The settings determine its rows and columns; they are
stored once, with the first instant of the spans that they hold for.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Listed
from monitor.core.tables.bands import Bands
from monitor.core.tables.reader import Measure, Table
from monitor.core.tables.settings import TableSettings
from monitor.core.tables.spans import Edition, Span, SpanKind
from monitor.core.time import DAY
from monitor.errors import FencedError
from monitor.store import bulk
from monitor.store.database import writing
from monitor.store.evaluator.lease import ROLE
from monitor.store.schema import calendar_labels, calendar_layout, calendar_table

FINE_KEPT_AFTER_HORIZON = 35 * DAY
"""Tables of hours and days are kept so long: windows of up to 28 days are made of them."""


class Stage(enum.Enum):
    """Kinds of tables of a span, in the order they are made; each is named by one measure."""

    DECISIONS = Measure.DECISIONS, Edition.FIRST
    FIRST = Measure.READY, Edition.FIRST
    FINAL = Measure.READY, Edition.FINAL


class Made(NamedTuple):
    """Starts (microseconds) of the oldest and newest span of a kind whose tables are stored."""

    oldest: int
    newest: int


class Era(NamedTuple):
    """Settings of all spans that begin at an instant or later, until the next era."""

    starts_at: int
    settings: TableSettings


@dataclass(frozen=True, slots=True)
class CalendarChange:
    """Changes of one cycle to a use case's calendar: tables, eras and label counts.

    Attributes:
        tables: tables to store, with the digest of their settings.
        eras: eras to store; they replace eras with the same first instant, which no table has yet.
        labels: exact label counts of first editions to be followed by a final one, with the digest.
        finished: spans whose label counts are no longer needed.
    """

    use_case: str
    tables: list[tuple[Table, str]] = field(default_factory=list)
    eras: list[Era] = field(default_factory=list)
    labels: list[tuple[Span, Int64s, str]] = field(default_factory=list)
    finished: list[Span] = field(default_factory=list)


def pack(bands: Bands) -> bytes:
    """Return bands as compressed bytes: detail, lower ends and widths, column by column."""
    numbers = np.concatenate([bands.detail[:, None], bands.low, bands.high - bands.low], axis=1)
    return _packed(numbers)


def unpack(body: bytes, rows: int) -> Bands:
    """Return the bands, of ``rows`` rows, that :func:`pack` wrote."""
    numbers = _unpacked(body).reshape(-1, rows).T
    low, width = np.split(numbers[:, 1:], 2, axis=1)
    return Bands(low, low + width, numbers[:, 0].astype(np.int8))


def write_calendar(connection: sa.Connection, changes: Sequence[CalendarChange]) -> None:
    """Store new tables, eras and label counts; delete label counts no longer needed.

    Raises:
        FencedError: another table of the same span is stored: another evaluator made it.
    """
    for change in changes:
        name = change.use_case
        rows = [(name, *_row(table, digest)) for table, digest in change.tables]
        columns = bulk.by_column(calendar_table, rows)
        if bulk.insert(connection, calendar_table, columns) != len(rows):
            _require_same(connection, rows)
        eras = [
            (name, era.starts_at, era.settings.digest, era.settings.text) for era in change.eras
        ]
        columns = bulk.by_column(calendar_layout, eras)
        bulk.insert(connection, calendar_layout, columns, bulk.replacing(calendar_layout))
        labels = [
            (name, *_place(span), digest, _packed(counts.reshape(-1, 1)))
            for span, counts, digest in change.labels
        ]
        bulk.insert(connection, calendar_labels, bulk.by_column(calendar_labels, labels))
        for span in change.finished:
            connection.execute(sa.delete(calendar_labels).where(*_is_span(name, span)))


def _place(span: Span) -> tuple[int, int]:
    return int(span.kind), span.start


def _row(table: Table, digest: str) -> tuple[Any, ...]:
    span, measure, edition = table.key
    return *_place(span), measure.value, edition.value, digest, table.effect, pack(table.bands)


def _is_span(use_case: str, span: Span) -> tuple[sa.ColumnElement[bool], ...]:
    table = calendar_labels.c
    kind, start = _place(span)
    return table.use_case == use_case, table.kind == kind, table.starts_at == start


def _require_same(connection: sa.Connection, rows: Iterable[Sequence[Any]]) -> None:
    """Raise a FencedError if a stored table differs: another evaluator wrote it."""
    for *key, digest, effect, body in rows:
        columns = zip(calendar_table.primary_key, key, strict=True)
        conditions = (column == value for column, value in columns)
        stored = connection.execute(sa.select(calendar_table).where(*conditions)).one()
        content = stored.digest, stored.effect, zlib.decompress(stored.body)
        if content != (digest, effect, zlib.decompress(body)):
            raise FencedError(ROLE)


def read_eras(connection: sa.Connection, use_case: str) -> list[Era]:
    """Return the eras of a use case (first instant, table settings), the oldest first."""
    table = calendar_layout.c
    query = sa.select(table.starts_at, table.body).where(table.use_case == use_case)
    rows = connection.execute(query.order_by(table.starts_at)).all()
    return [Era(row.starts_at, TableSettings.parse(row.body)) for row in rows]


def read_made(connection: sa.Connection, use_case: str) -> dict[tuple[Stage, SpanKind], Made]:
    """Return the oldest and newest stored span by (stage, kind), for one use case."""
    table, spans_made = calendar_table.c, {}
    ends = (sa.func.min(table.starts_at), sa.func.max(table.starts_at))
    for stage in Stage:
        measure, edition = stage.value
        of_stage = (table.measure == measure, table.edition == edition)
        query = sa.select(table.kind, *ends).where(table.use_case == use_case, *of_stage)
        for kind, *starts in connection.execute(query.group_by(table.kind)):
            spans_made[stage, SpanKind(kind)] = Made(*starts)
    return spans_made


def read_tables(
    connection: sa.Connection,
    use_case: str,
    since: int,
    *,
    until: int | None = None,
    kinds: Collection[SpanKind] = tuple(SpanKind),
) -> list[Table]:
    """Return tables of a use case whose spans begin at an instant or later, by kind, oldest first.

    Args:
        connection: of the store.
        use_case: name of the use case.
        since: instant (microseconds).
        until: end of the latest span; None for all.
        kinds: kinds of spans.
    """
    table = calendar_table.c
    conditions = [table.use_case == use_case, table.kind.in_([int(kind) for kind in kinds])]
    if until is not None:
        conditions.append(table.starts_at + table.kind <= until)
    query = sa.select(calendar_table).where(*conditions, table.starts_at >= since)
    query = query.order_by(table.kind, table.starts_at, table.measure, table.edition)
    settings = {era.settings.digest: era.settings for era in read_eras(connection, use_case)}
    return [_table(row, settings[row.digest]) for row in connection.execute(query)]


def _table(row: sa.Row[Any], settings: TableSettings) -> Table:
    measure, kind = Measure(row.measure), SpanKind(row.kind)
    span = Span.containing(row.starts_at, kind, settings.offset)
    frame = settings.frame(span, measure)
    bands = unpack(row.body, len(frame.layout.rows))
    return Table(frame, measure, bands, Edition(row.edition), row.effect)


def newest_effects(connection: sa.Connection) -> dict[str, float]:
    """Return the design effect of units in the newest day's table, by use case."""
    table = calendar_table.c
    of_days = (table.kind == int(SpanKind.DAY), table.measure == Measure.DECISIONS)
    query = sa.select(table.use_case, table.effect).where(*of_days).order_by(table.starts_at)
    return {row.use_case: row.effect for row in connection.execute(query)}


def read_first_labels(connection: sa.Connection, use_case: str, span: Span) -> Int64s | None:
    """Return the exact label counts of a span's first edition, as a flat array, or None."""
    query = sa.select(calendar_labels.c.body).where(*_is_span(use_case, span))
    body = connection.execute(query).scalar()
    return None if body is None else _unpacked(body)


def delete_before(engine: sa.Engine, fine: int, coarse: int) -> None:
    """Delete tables of spans that ended before an instant; the newest of each kind stays.

    The next table is made after the newest one: a span must never be made twice.

    Args:
        engine: the store.
        fine: instant for hours and days.
        coarse: instant for longer spans.
    """
    table, later = calendar_table.c, calendar_table.alias().c
    names = ("use_case", "kind", "measure", "edition")
    same_table = [later[name] == table[name] for name in names]
    newer = sa.exists().where(*same_table, later.starts_at > table.starts_at)
    for kind in SpanKind:
        ended = (coarse if kind >= SpanKind.WEEK else fine) - kind
        old = (table.kind == int(kind), table.starts_at < ended)
        with writing(engine) as connection:
            connection.execute(sa.delete(calendar_table).where(*old, newer))
    with writing(engine) as connection:  # their final edition was due a week before or earlier
        connection.execute(sa.delete(calendar_labels).where(calendar_labels.c.starts_at < fine))


def forget_calendar(connection: sa.Connection, listed: Collection[Listed]) -> None:
    """Delete tables whose settings list one of these names or values, and stop their eras.

    The remaining settings make no tables: tables of the same spans were published before.
    """
    table = calendar_layout.c
    for row in connection.execute(sa.select(calendar_layout)).all():
        settings = TableSettings.parse(row.body)
        if settings.lists(listed):
            nothing = replace(settings, values=(), group_bys=(), where=(), k=0)
            for rows in (calendar_table, calendar_labels):
                of_layout = (rows.c.use_case == row.use_case, rows.c.digest == row.digest)
                connection.execute(sa.delete(rows).where(*of_layout))
            era = (table.use_case == row.use_case, table.starts_at == row.starts_at)
            values = {"digest": nothing.digest, "body": nothing.text}
            connection.execute(sa.update(calendar_layout).where(*era).values(values))


def _packed(columns: Int64s) -> bytes:
    return zlib.compress(np.ascontiguousarray(columns.T, "<i8").tobytes(), 6)


def _unpacked(body: bytes) -> Int64s:
    return np.frombuffer(zlib.decompress(body), "<i8").astype(np.int64)

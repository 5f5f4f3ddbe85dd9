"""Stored calendar tables: written once, in the transaction of a cycle, and never changed.

A table is stored as the bands of its rows. What its rows and columns are follows from settings,
which are stored once, with the first instant of the spans that they hold for.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Collection, Mapping, Sequence
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
"""Hours and days make up windows of up to 28 days, whose labels may be a horizon younger."""

_FINE = (int(SpanKind.HOUR), int(SpanKind.DAY))
_KEY = ("use_case", "kind", "starts_at", "measure", "edition")
_LABEL_COUNTS = 3
_REPLACED = "(use_case, starts_at) DO UPDATE SET digest = excluded.digest, body = excluded.body"


class Stage(enum.IntEnum):
    """Which tables of a span: decisions, labels, labels once their horizon has passed."""

    DECISIONS = 0
    FIRST = 1
    FINAL = 2

    @classmethod
    def of(cls, measure: str, edition: str) -> Stage | None:
        """The stage that a measure stands for; None where another measure does."""
        if measure == Measure.DECISIONS:
            return cls.DECISIONS
        if measure != Measure.READY:
            return None
        return cls.FINAL if edition == Edition.FINAL else cls.FIRST


class Made(NamedTuple):
    """Starts of the oldest and of the newest span of a kind whose tables are stored."""

    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class Era:
    """Settings of all spans that begin at an instant or later, until the next era."""

    starts_at: int
    settings: TableSettings


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that was made by some settings."""

    table: Table
    digest: str


@dataclass(frozen=True, slots=True)
class FirstLabels:
    """Exact label counts of a first edition: ready, not ready, revised; (3, rows, parts)."""

    span: Span
    counts: Int64s
    digest: str


@dataclass(frozen=True, slots=True)
class CalendarChange:
    """New tables of one use case.

    Attributes:
        use_case: its name.
        tables: to be stored.
        eras: to be stored; one with the same first instant is replaced: no table has it yet.
        labels: of first editions that a final one will follow.
        finished: spans whose label counts are not needed any more.
    """

    use_case: str
    tables: Sequence[NewTable] = ()
    eras: Sequence[Era] = ()
    labels: Sequence[FirstLabels] = ()
    finished: Sequence[Span] = field(default=())


def pack(bands: Bands) -> bytes:
    """The bands as bytes: detail, lower ends and widths, column by column."""
    numbers = np.concatenate([bands.detail[:, None], bands.low, bands.high - bands.low], axis=1)
    return _packed(numbers)


def unpack(body: bytes, rows: int) -> Bands:
    """The bands that :func:`pack` wrote."""
    numbers = _unpacked(body, (-1, rows)).T
    low, width = np.split(numbers[:, 1:], 2, axis=1)
    return Bands(low, low + width, numbers[:, 0].astype(np.int8))


def write_calendar(connection: sa.Connection, changes: Sequence[CalendarChange]) -> None:
    """Store what was made.

    Raises:
        FencedError: another table of the same span is stored: somebody else made it.
    """
    for change in changes:
        name = change.use_case
        rows = [_row(name, made) for made in change.tables]
        columns = {column: [row[column] for row in rows] for column in (*_KEY, "digest", "body")}
        if bulk.insert(connection, calendar_table, columns) != len(rows):
            _require_same(connection, rows)
        eras: bulk.Columns = {
            "use_case": [name] * len(change.eras),
            "starts_at": [era.starts_at for era in change.eras],
            "digest": [era.settings.digest for era in change.eras],
            "body": [era.settings.text for era in change.eras],
        }
        update = (
            "(use_case, starts_at) DO UPDATE SET digest = excluded.digest, body = excluded.body"
        )
        bulk.insert(connection, calendar_layout, eras, update)
        labels: bulk.Columns = {
            **_spans(name, [first.span for first in change.labels]),
            "digest": [first.digest for first in change.labels],
            "body": [_packed(first.counts.reshape(-1, 1)) for first in change.labels],
        }
        bulk.insert(connection, calendar_labels, labels)
        bulk.delete(connection, calendar_labels, _spans(name, change.finished))


def _spans(use_case: str, spans: Sequence[Span]) -> dict[str, list[Any]]:
    kinds, starts = [int(span.kind) for span in spans], [span.start for span in spans]
    return {"use_case": [use_case] * len(spans), "kind": kinds, "starts_at": starts}


def _row(use_case: str, made: NewTable) -> dict[str, Any]:
    span, measure, edition = made.table.key
    key = (use_case, int(span.kind), span.start, measure.value, edition.value)
    body = pack(made.table.bands)
    return {**dict(zip(_KEY, key, strict=True)), "digest": made.digest, "body": body}


def _require_same(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        key = [calendar_table.c[name] == row[name] for name in _KEY]
        stored = connection.execute(sa.select(calendar_table).where(*key)).one()
        same = zlib.decompress(stored.body) == zlib.decompress(row["body"])
        if stored.digest != row["digest"] or not same:
            raise FencedError(ROLE)


def read_eras(connection: sa.Connection, use_case: str) -> list[Era]:
    """Eras of a use case, the oldest first."""
    table = calendar_layout.c
    query = sa.select(table.starts_at, table.body).where(table.use_case == use_case)
    rows = connection.execute(query.order_by(table.starts_at)).all()
    return [Era(row.starts_at, TableSettings.parse(row.body)) for row in rows]


def read_made(connection: sa.Connection, use_case: str) -> dict[tuple[Stage, SpanKind], Made]:
    """Which tables of a use case are stored."""
    table = calendar_table.c
    query = (
        sa.select(
            table.kind,
            table.measure,
            table.edition,
            sa.func.min(table.starts_at).label("oldest"),
            sa.func.max(table.starts_at).label("newest"),
        )
        .where(table.use_case == use_case)
        .group_by(table.kind, table.measure, table.edition)
    )
    rows = [(Stage.of(row.measure, row.edition), row) for row in connection.execute(query)]
    return {
        (stage, SpanKind(row.kind)): Made(row.oldest, row.newest)
        for stage, row in rows
        if stage is not None
    }


def read_tables(
    connection: sa.Connection,
    use_case: str,
    since: int,
    *,
    until: int | None = None,
    kinds: Collection[SpanKind] = tuple(SpanKind),
) -> list[Table]:
    """Tables of a use case whose spans begin at an instant or later, by kind, oldest first.

    Args:
        connection: of the store.
        use_case: its name.
        since: instant (microseconds).
        until: end of the latest span; None for all.
        kinds: of spans.
    """
    table = calendar_table.c
    chosen = [table.use_case == use_case, table.kind.in_([int(kind) for kind in kinds])]
    if until is not None:
        chosen.append(table.starts_at + table.kind <= until)
    query = sa.select(calendar_table).where(*chosen, table.starts_at >= since)
    order = (table.kind, table.starts_at, table.measure, table.edition)
    settings = {era.settings.digest: era.settings for era in read_eras(connection, use_case)}
    return [_table(row, settings[row.digest]) for row in connection.execute(query.order_by(*order))]


def _table(row: sa.Row[Any], settings: TableSettings) -> Table:
    span, measure = (
        Span.of(row.starts_at, SpanKind(row.kind), settings.offset),
        Measure(row.measure),
    )
    frame = settings.frame(span, labels=measure is not Measure.DECISIONS)
    bands = unpack(row.body, len(frame.layout.rows))
    return Table(frame, measure, bands, Edition(row.edition))


def read_first_labels(
    connection: sa.Connection, use_case: str, span: Span, rows: int
) -> Int64s | None:
    """Exact label counts of a span's first edition; None where there are none."""
    table = calendar_labels.c
    key = (table.use_case == use_case, table.kind == int(span.kind), table.starts_at == span.start)
    body = connection.execute(sa.select(table.body).where(*key)).scalar()
    return None if body is None else _unpacked(body, (_LABEL_COUNTS, rows, -1))


def delete_before(engine: sa.Engine, fine: int, coarse: int) -> None:
    """Delete tables of spans that ended before an instant; the newest of each kind stays.

    After the newest one the next is made: a span must never be made twice.

    Args:
        engine: the store.
        fine: for hours and days.
        coarse: for longer spans.
    """
    table, later = calendar_table.c, calendar_table.alias().c
    same = [later[name] == table[name] for name in _KEY if name != "starts_at"]
    newer = sa.exists().where(*same, later.starts_at > table.starts_at)
    for kind in SpanKind:
        before = (fine if kind in _FINE else coarse) - kind
        old = (table.kind == int(kind), table.starts_at < before)
        with writing(engine) as connection:
            connection.execute(sa.delete(calendar_table).where(*old, newer))
    with writing(engine) as connection:  # a final edition was due a week before, at the latest
        connection.execute(sa.delete(calendar_labels).where(calendar_labels.c.starts_at < fine))


def delete_after(connection: sa.Connection, end: int) -> None:
    """Delete tables of spans that end after an instant, and eras that begin later."""
    for table in (calendar_table, calendar_labels):
        connection.execute(sa.delete(table).where(table.c.starts_at + table.c.kind > end))
    connection.execute(sa.delete(calendar_layout).where(calendar_layout.c.starts_at > end))


def forget_calendar(connection: sa.Connection, listed: Collection[Listed]) -> None:
    """Delete all tables whose layout has one of these names (value None) or values.

    The settings that are left make no tables: those of the same spans were published before.
    """
    table = calendar_layout.c
    for row in connection.execute(sa.select(calendar_layout)).all():
        settings = TableSettings.parse(row.body)
        if not settings.lists(listed):
            continue
        nothing = replace(settings, values=(), group_bys=(), where=(), k=0)
        for rows in (calendar_table, calendar_labels):
            of_layout = (rows.c.use_case == row.use_case, rows.c.digest == row.digest)
            connection.execute(sa.delete(rows).where(*of_layout))
        era = (table.use_case == row.use_case, table.starts_at == row.starts_at)
        values = {"digest": nothing.digest, "body": nothing.text}
        connection.execute(sa.update(calendar_layout).where(*era).values(values))


def _packed(columns: Int64s) -> bytes:
    return zlib.compress(np.ascontiguousarray(columns.T, "<i8").tobytes(), 6)


def _unpacked(body: bytes, shape: tuple[int, ...]) -> Int64s:
    return np.frombuffer(zlib.decompress(body), "<i8").astype(np.int64).reshape(shape)

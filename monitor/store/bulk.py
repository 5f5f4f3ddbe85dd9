"""Reads and writes of many rows at once, by each database's fastest way.

SQLite takes rows one after another without a round trip; PostgreSQL takes whole columns as arrays,
and for the hot path a binary COPY.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s

Columns = Mapping[str, Sequence[Any] | npt.NDArray[Any]]

_CHUNK = 5_000  # rows of one VALUES list: its text stays far below SQLite's limits
_TOGETHER = 20  # rows that SQLite inserts at once: a third of the time of single rows is the calls
_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = b"\xff\xff"
# Element type and its binary form, by the kind of a column.
_BIGINT, _BOOLEAN = (20, ">i8"), (16, "?")


@dataclass(frozen=True, slots=True)
class PackedArray:
    """Array parameter in PostgreSQL's binary form: lists would be written out as text."""

    data: bytes

    @staticmethod
    def pack(values: Sequence[Any] | npt.NDArray[Any], element: tuple[int, str]) -> PackedArray:
        """Return values without NULL as a PackedArray; ``element`` is type id and dtype."""
        oid, form = element
        rows = np.empty(len(values), np.dtype([("length", ">i4"), ("value", form)]))
        rows["length"], rows["value"] = np.dtype(form).itemsize, values
        header = np.array([1, 0, oid, len(values), 1], ">i4")  # dimensions, no NULLs, lower bound
        return PackedArray(header.tobytes() + rows.tobytes())


def register_arrays(connection: Any) -> None:
    """Register a dumper so that a psycopg connection takes :class:`PackedArray` parameters."""
    from psycopg.adapt import Dumper  # noqa: PLC0415 - the driver is an extra
    from psycopg.pq import Format  # noqa: PLC0415

    class PackedDumper(Dumper):
        """Dumper that hands packed arrays over as they are."""

        format = Format.BINARY

        def dump(self, obj: Any) -> bytes:
            return bytes(obj.data)

    connection.adapters.register_dumper(PackedArray, PackedDumper)


def insert(
    connection: sa.Connection,
    table: sa.Table,
    columns: Columns,
    conflict: str = "DO NOTHING",
    *,
    zeros: Sequence[str] = (),
) -> int:
    """Insert rows given as columns of equal length; return how many the database touched.

    Args:
        connection: a transaction.

        table: table to insert into.
        columns: values by column name. Rows must be sorted by the primary key where two
            transactions may insert the same rows, or they could wait for each other for ever.
        conflict: text after ``ON CONFLICT``.
        zeros: further columns, which are 0 in every row.
    """
    length = len(next(iter(columns.values())))
    if not length:
        return 0
    names, zero_marks = ", ".join((*columns, *zeros)), ["0"] * len(zeros)
    if connection.dialect.name == "sqlite":
        marks = ", ".join([*("?" * len(columns)), *zero_marks])
        return _insert_rows(connection, (f"{table.name} ({names})", marks, conflict), columns)
    selected = ", ".join(["*", *zero_marks])
    query = f"INSERT INTO {table.name} ({names}) SELECT {selected} FROM {_unnest(table, columns)}"
    return connection.exec_driver_sql(
        f"{query} ON CONFLICT {conflict}", _arrays(table, columns)
    ).rowcount


def by_column(table: sa.Table, rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows with a value for each column of a table, as columns for :func:`insert`."""
    return {column.name: [row[place] for row in rows] for place, column in enumerate(table.c)}


def replacing(table: sa.Table) -> str:
    """Return the text after ``ON CONFLICT`` by which new rows replace stored ones."""
    values = (column.name for column in table.c if not column.primary_key)
    return (
        f"{_key(table)} DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in values)}"
    )


def adding_to(table: sa.Table, numbers: Sequence[str]) -> str:
    """Return the text after ``ON CONFLICT`` by which these columns are added to stored ones."""
    added = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in numbers)
    return f"{_key(table)} DO UPDATE SET {added}" if numbers else f"{_key(table)} DO NOTHING"


def _key(table: sa.Table) -> str:
    return f"({', '.join(table.primary_key.columns.keys())})"


def _insert_rows(
    connection: sa.Connection, statement: tuple[str, str, str], columns: Columns
) -> int:
    """Insert rows on SQLite in their order; return how many the database touched."""
    head, marks, conflict = statement
    cells, width = _by_row(columns), len(columns)
    together = len(cells) - len(cells) % (width * _TOGETHER)
    touched = 0
    for number, portion in ((_TOGETHER, cells[:together]), (1, cells[together:])):
        step = width * number
        parameters = [tuple(portion[at : at + step]) for at in range(0, len(portion), step)]
        if parameters:
            values = ", ".join([f"({marks})"] * number)
            query = f"INSERT INTO {head} VALUES {values} ON CONFLICT {conflict}"
            touched += connection.exec_driver_sql(query, parameters).rowcount
    return touched


def _by_row(columns: Columns) -> list[Any]:
    """Return the columns' values, row after row, as one flat list."""
    values_by_column = list(columns.values())
    if all(
        isinstance(column, np.ndarray) and column.dtype == np.int64 for column in values_by_column
    ):
        values: list[Any] = np.stack(values_by_column, axis=1).ravel().tolist()
        return values
    return list(chain.from_iterable(zip(*map(_listed, values_by_column), strict=True)))


def read_integers(
    connection: sa.Connection, query: str, width: int, where: Mapping[str, int | bool]
) -> Int64s:
    """Return a query's rows as an array of shape (rows, width); no value may be NULL."""
    answer = connection.execute(parsed(query), where)
    # The driver's tuples: SQLAlchemy's rows would take a third of the time.
    rows = answer.cursor.fetchall()
    answer.close()
    values = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * width)
    return values.reshape(len(rows), width)


@cache
def parsed(query: str) -> sa.TextClause:
    """Return the SQL text clause of a query, parsed once and cached."""
    return sa.text(query)


def delete(connection: sa.Connection, table: sa.Table, columns: Columns) -> int:
    """Delete the rows that have these values, given as columns; return how many there were."""
    if not len(next(iter(columns.values()))):
        return 0
    if connection.dialect.name == "sqlite":
        rows = list(zip(*map(_listed, columns.values()), strict=True))
        condition = " AND ".join(f"{name} = ?" for name in columns)
        return connection.exec_driver_sql(
            f"DELETE FROM {table.name} WHERE {condition}", rows
        ).rowcount
    condition = " AND ".join(f"t.{name} = w.{name}" for name in columns)
    query = (
        f"DELETE FROM {table.name} t USING {_unnest(table, columns)}"
        f" AS w({', '.join(columns)}) WHERE {condition}"
    )
    return connection.exec_driver_sql(query, _arrays(table, columns)).rowcount


def with_keys(
    connection: sa.Connection,
    table: sa.Table,
    names: Sequence[str],
    keys: list[tuple[int, ...]] | list[tuple[int, int]] | list[tuple[int, int, int]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield statement heads ``WITH w(names) AS (the keys)``, each with its parameters.

    A statement is run once for each head: SQLite takes the keys in several portions.
    """
    head = f"WITH w({', '.join(names)}) AS "
    if connection.dialect.name != "sqlite":
        if keys:
            columns = dict(zip(names, zip(*keys, strict=True), strict=True))
            yield f"{head}(SELECT * FROM {_unnest(table, names)}) ", _arrays(table, columns)
        return
    for start in range(0, len(keys), _CHUNK):
        rows = str(keys[start : start + _CHUNK])[1:-1]  # tuples of integers read like SQL
        yield f"{head}(VALUES {rows}) ", {}


def _listed(values: Sequence[Any] | npt.NDArray[Any]) -> Sequence[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values


def _arrays(table: sa.Table, columns: Columns) -> dict[str, PackedArray | list[Any]]:
    packed: dict[str, PackedArray | list[Any]] = {}
    for name, values in columns.items():
        element = _element(table.c[name])
        without_nulls = isinstance(values, np.ndarray) or None not in values
        packed[name] = (
            PackedArray.pack(values, element) if element and without_nulls else list(values)
        )
    return packed


def _element(column: sa.Column[Any]) -> tuple[int, str] | None:
    """Return type id and dtype of a column's packed values; None for columns sent as lists."""
    if isinstance(column.type, sa.Boolean):
        return _BOOLEAN
    return _BIGINT if isinstance(column.type, sa.Integer) else None


def _unnest(table: sa.Table, columns: Iterable[str]) -> str:
    arrays = (f"%({name})s::{_server_type(table.c[name])}[]" for name in columns)
    return f"unnest({', '.join(arrays)})"


def _server_type(column: sa.Column[Any]) -> str:
    kinds = {_BIGINT: "bigint", _BOOLEAN: "boolean"}
    element = _element(column)
    return kinds[element] if element else column.type.compile(_postgresql())


@cache
def _postgresql() -> sa.Dialect:
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - slow to load, and SQLite has none

    return postgresql.dialect()  # type: ignore[no-untyped-call]


def copy_integers(
    connection: sa.Connection, table: sa.Table, columns: Mapping[str, Int64s]
) -> bool:
    """Add rows by a binary COPY (PostgreSQL); return False, and add none, if a key exists.

    After False, the transaction must be rolled back to a savepoint before it can go on.
    """
    driver: Any = connection.connection.driver_connection
    query = f"COPY {table.name} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    try:
        with driver.cursor() as cursor, cursor.copy(query) as copy:
            copy.write(_COPY_HEADER + _copy_rows(table, columns).tobytes() + _COPY_END)
    except connection.dialect.loaded_dbapi.IntegrityError:
        return False
    return True


def _copy_rows(table: sa.Table, columns: Mapping[str, Int64s]) -> npt.NDArray[np.void]:
    """Return COPY's binary rows: number of fields, then length and big-endian value of each."""
    sizes = {name: 2 if isinstance(table.c[name].type, sa.SmallInteger) else 8 for name in columns}
    fields = chain.from_iterable(
        ((f"{name} length", ">i4"), (name, f">i{size}")) for name, size in sizes.items()
    )
    length = len(next(iter(columns.values())))
    rows = np.empty(length, np.dtype([("fields", ">i2"), *fields]))
    rows["fields"] = len(columns)
    for name, values in columns.items():
        rows[f"{name} length"], rows[name] = sizes[name], values
    return rows

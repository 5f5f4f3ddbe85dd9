"""Published values in tables for people who may read nothing else: Grafana, notebooks.

A row shows values of a Snapshot in SQL's terms; NULL is withheld. Rows are kept by the UTC day of
the Snapshot's watermark: the newest publication of a day replaces the older ones. All values come
from a :class:`~monitor.core.publish.snapshot.Snapshot`, which only the privacy guards make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from monitor.core.metric import Metric
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    LimitKind,
    OwnLimit,
    ShownGap,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.state import State
from monitor.core.time import to_datetime
from monitor.store import bulk
from monitor.store.database import reading, writing
from monitor.store.schema import (
    PUBLISHED,
    published_calibration,
    published_contract,
    published_limit,
    published_rate,
    published_window,
)

DECISIONS, LABELLED = "decisions", "labelled"
"""Kinds of a window's periods: for selection and blocked rates, and for rates of labels."""

_Row = tuple[Any, ...]
"""Values of all columns but the day, in their order: the key comes first."""
_Where = tuple[str, str, str]  # contract, window, group-by
_Group = tuple[_Where, WindowTable | GroupTable, Sequence[SliceRow]]
_Rows = Mapping[_Row, _Row]
_RATE = attrgetter("value", "lower", "upper", "at_least", "at_most", "support")
_NO_RATE = (None,) * 6
_GAP = (
    *("reference", "gap", "gap_lower", "gap_upper"),
    *("ratio", "ratio_lower", "ratio_upper", "verdict"),
)

_GAP_VALUES = attrgetter("value", "lower", "upper", "ratio", "ratio_lower", "ratio_upper")
_NO_GAP = (None,) * len(_GAP)
_OWN = (LimitKind.MAX_GAP, LimitKind.MIN_RATIO, LimitKind.MIN_LEVEL, LimitKind.MAX_LEVEL)
"""Kinds of limits that a slice may have of its own, in the order of their columns."""
_NO_OWN = (None,) * len(_OWN)


@dataclass(frozen=True, slots=True)
class Publication:
    """Content of the published tables on their newest day: the day and its Snapshot."""

    day: date
    snapshot: Snapshot


def write_published(
    connection: sa.Connection, snapshot: Snapshot, before: Publication | None = None
) -> Publication | None:
    """Write a Snapshot to the published tables, on its watermark's day; return the content.

    Equal rows are not written again. Before the first watermark there is no day, nor before 1970
    (such events are dated wrongly, and databases differ in the dates they accept).

    Args:
        connection: the transaction in which the Snapshot itself is stored.
        snapshot: the Snapshot to show.
        before: present content of the tables: only differences are sent to the database. None: all
            rows are sent, and the database finds the differences.

    Returns:
        The content of the tables once the transaction is committed; None where there is no day.
    """
    if snapshot.watermark is None or snapshot.watermark < 0:
        return None
    day = to_datetime(snapshot.watermark).date()
    shown_before = None if before is None else _shown_on(connection, day, before)
    rows, stale = (
        _rows_of(snapshot, shown_before),
        None if shown_before is None else _rows_of(shown_before, snapshot),
    )
    for table, wanted in rows.items():
        _replace(connection, table, day, wanted, None if stale is None else stale[table])
    return Publication(day, snapshot)


def _shown_on(connection: sa.Connection, day: date, before: Publication) -> Snapshot | None:
    """Copy the last day's rows to a new day; return the Snapshot shown then, or None.

    A new day begins with a copy of the rows of the last one, made by the database: most of them
    stay equal.
    """
    copied = before.day == day or all(
        _copy(connection, table, before.day, day) == size
        for table, size in _row_counts(before.snapshot).items()
    )
    return before.snapshot if copied else None


def _copy(connection: sa.Connection, table: sa.Table, old: date, new: date) -> int:
    """Replace the rows of day ``new`` by a copy of those of day ``old``; return their number."""
    connection.execute(sa.delete(table).where(table.c.day == new))
    names = [column.name for column in table.columns if column.name != "day"]
    rows = sa.select(sa.literal(new, table.c.day.type), *(table.c[name] for name in names))
    copy = sa.insert(table).from_select(["day", *names], rows.where(table.c.day == old))
    return connection.execute(copy.execution_options(preserve_rowcount=True)).rowcount


def _row_counts(snapshot: Snapshot) -> dict[sa.Table, int]:
    """Return the number of rows that a Snapshot has in each published table."""
    groups = list(_groups(snapshot))
    slices = [row for _, _, rows in groups for row in rows]
    return {
        published_contract: len(snapshot.contracts),
        published_limit: sum(1 for _ in _limits(snapshot)),
        published_window: sum(1 for _ in _windows(groups)),
        published_rate: sum(len(row.states) for row in slices),
        published_calibration: sum(len(row.calibration) for row in slices),
    }


def _rows_of(snapshot: Snapshot, previous: Snapshot | None) -> dict[sa.Table, _Rows]:
    """Return a Snapshot's rows by table and key, without slices that ``previous`` shows equally."""
    groups = list(_differing(snapshot, previous))
    assert snapshot.watermark is not None, "called with a day"  # noqa: S101
    rows = {
        published_contract: _contracts(snapshot, snapshot.watermark),
        published_limit: _limits(snapshot),
        published_window: _windows(groups),
        published_rate: _rates(groups, {table.contract: table for table in snapshot.contracts}),
        published_calibration: _calibrations(groups),
    }
    return {table: _by_key(table, table_rows) for table, table_rows in rows.items()}


ShownCell = tuple[str, str, str, Metric]
"""Contract, group-by, slice and metric of a shown rate."""


def shown_cells(connection: sa.Connection) -> set[ShownCell]:
    """Return (contract, group-by, slice, metric) of every rate that any stored day shows."""
    rates = published_rate.c
    query = sa.select(rates.contract, rates.group_by, rates.slice, rates.metric).distinct()
    rows = connection.execute(query.where(rates.state != State.SUPPRESSED.value))
    return {(row.contract, row.group_by, row.slice, Metric(row.metric)) for row in rows}


def delete_before(engine: sa.Engine, before: int) -> None:
    """Delete published days that lie wholly before an instant, each in its own transaction.

    Args:
        engine: the store.
        before: event time.
    """
    day = published_contract.c.day
    query = sa.select(day).where(day < to_datetime(before).date()).distinct().order_by(day)
    with reading(engine) as connection:
        days = connection.execute(query).scalars().all()
    for old_day in days:
        with writing(engine) as connection:
            for table in PUBLISHED:
                connection.execute(sa.delete(table).where(table.c.day == old_day))


def forget(
    connection: sa.Connection, group_by: Callable[[str], bool], part: Callable[[str], bool]
) -> None:
    """Delete published rows of forgotten group-bys and slices; blank gaps to such references.

    Args:
        connection: a transaction.
        group_by: tells whether a whole group-by goes.
        part: tells whether a slice goes, or a gap with this reference.
    """
    for table in (published_window, published_rate, published_calibration):
        _delete_where(connection, table.c.group_by, group_by)
    for table in (published_rate, published_calibration):
        _delete_where(connection, table.c.slice, part)
    reference = published_rate.c.reference
    for name in _distinct(connection, reference, part):
        update = sa.update(published_rate).where(reference == name)
        connection.execute(update.values(dict.fromkeys(_GAP)))


def _delete_where(
    connection: sa.Connection, column: sa.Column[str], gone: Callable[[str], bool]
) -> None:
    for name in _distinct(connection, column, gone):
        connection.execute(sa.delete(column.table).where(column == name))


def _distinct(
    connection: sa.Connection, column: sa.Column[str], wanted: Callable[[str], bool]
) -> list[str]:
    query = sa.select(column).where(column.is_not(None)).distinct()
    return [name for name in connection.execute(query).scalars().all() if wanted(name)]


def _keys(table: sa.Table) -> list[str]:
    return [column.name for column in table.primary_key if column.name != "day"]


def _by_key(table: sa.Table, rows: Iterable[_Row]) -> _Rows:
    length = len(_keys(table))
    return {row[:length]: row for row in rows}


def _replace(
    connection: sa.Connection, table: sa.Table, day: date, wanted: _Rows, stored: _Rows | None
) -> None:
    """Make the rows of a day equal ``wanted``: delete the rest, insert and update the others."""
    keys = _keys(table)
    if stored is None:
        query = sa.select(*(table.c[key] for key in keys)).where(table.c.day == day)
        stored_keys = {tuple(row) for row in connection.execute(query).all()}
        changed = wanted
    else:
        stored_keys = set(stored)
        changed = {key: row for key, row in wanted.items() if stored.get(key) != row}
    if gone := sorted(stored_keys - wanted.keys()):
        columns = zip(keys, zip(*gone, strict=True), strict=True)
        bulk.delete(connection, table, {"day": [str(day)] * len(gone), **dict(columns)})
    if changed:
        names = [column.name for column in table.columns if column.name != "day"]
        values = dict(zip(names, zip(*changed.values(), strict=True), strict=True))
        days = [str(day)] * len(changed)
        bulk.insert(
            connection, table, {"day": days, **values}, _update_if_different(connection, table)
        )


def _update_if_different(connection: sa.Connection, table: sa.Table) -> str:
    """Return the text after ON CONFLICT that rewrites a row only where it differs."""
    keys = ", ".join(column.name for column in table.primary_key)
    rest = [column.name for column in table.columns if not column.primary_key]
    new = ", ".join(f"{name} = excluded.{name}" for name in rest)
    stored, fresh = (
        ", ".join(f"{source}.{name}" for name in rest) for source in (table.name, "excluded")
    )
    # Only newer versions of SQLite know the standard's words.
    differs = "IS NOT" if connection.dialect.name == "sqlite" else "IS DISTINCT FROM"
    return f"({keys}) DO UPDATE SET {new} WHERE ({stored}) {differs} ({fresh})"


def _contracts(snapshot: Snapshot, watermark: int) -> Iterator[_Row]:
    mature_to = None if snapshot.frontier is None else _instant(snapshot.frontier)
    for table in snapshot.contracts:
        about = table.contract, table.version, table.owner, table.synthetic, table.k, table.window
        yield *about, _instant(watermark), mature_to


def _limits(snapshot: Snapshot) -> Iterator[_Row]:
    """Yield the limits of each metric that a contract limits, as rows of the table."""
    for table in snapshot.contracts:
        limits = (
            table.max_gaps,
            table.min_levels,
            table.max_levels,
            table.min_supports,
            table.min_ratios,
        )
        for metric in Metric:
            values = [by_metric.get(metric) for by_metric in limits]
            if any(value is not None for value in values):
                yield table.contract, metric.value, *values


def _windows(groups: Iterable[_Group]) -> Iterator[_Row]:
    for key, table, _ in groups:
        for kind, period in ((DECISIONS, table.decisions), (LABELLED, table.labelled)):
            if period is not None:
                span = _instant(period.start), _instant(period.end)
                yield *key, kind, *span, period.data_lost, period.excluded


def _rates(groups: Iterable[_Group], contracts: Mapping[str, ContractTable]) -> Iterator[_Row]:
    for key, _, rows in groups:
        contract = contracts[key[0]]
        for row in rows:
            for metric in row.states:
                own_limits = (
                    _own(contract, key[2], row.slice, metric) if contract.own_limits else ()
                )
                yield *key, row.slice, *_metric(row, metric), *(own_limits or _NO_OWN)


def _own(contract: ContractTable, group_by: str, slice_: str, metric: Metric) -> _Row:
    own_limits = contract.own_limits_of(group_by, slice_, metric)
    return tuple(own_limits.get(kind) for kind in _OWN)


def _metric(row: SliceRow, metric: Metric) -> _Row:
    """Return what a slice shows of a metric, as columns of the table."""
    labelled = metric.labelled
    return (
        metric.value,
        LABELLED if labelled else DECISIONS,
        row.states[metric].value,
        *_shown_rate(row.rates.get(metric)),
        *_shown_gap(row.gaps.get(metric)),
        row.as_labelled.get(metric),
        row.completeness if labelled else None,
    )


def _shown_rate(rate: ShownRate | None) -> _Row:
    return _NO_RATE if rate is None else _RATE(rate)


def _shown_gap(gap: ShownGap | None) -> _Row:
    if gap is None:
        return _NO_GAP
    return gap.reference, *_GAP_VALUES(gap), None if gap.verdict is None else gap.verdict.value


def _calibrations(groups: Iterable[_Group]) -> Iterator[_Row]:
    for key, _, rows in groups:
        for row in rows:
            for cell in row.calibration:
                yield *key, row.slice, cell.band, *_shown_rate(cell.rate)


def _differing(snapshot: Snapshot, previous: Snapshot | None) -> Iterator[_Group]:
    """Yield every group-by of every window, with the slices that ``previous`` shows otherwise.

    Most slices stay equal from one publication to the next, and a slice has a dozen rows.
    """
    previous_groups = {} if previous is None else {key: rows for key, _, rows in _groups(previous)}
    if previous is not None and _own_limits(snapshot) != _own_limits(previous):
        previous_groups = {}
    for key, table, rows in _groups(snapshot):
        previous_rows = {row.slice: row for row in previous_groups.get(key, ())}
        yield key, table, [row for row in rows if previous_rows.get(row.slice) != row]


def _own_limits(snapshot: Snapshot) -> list[tuple[str, Sequence[OwnLimit]]]:
    return [(table.contract, table.own_limits) for table in snapshot.contracts]


def _groups(snapshot: Snapshot) -> Iterator[_Group]:
    """Yield (key, table, rows) of every group-by of every window, the total first."""
    for contract in snapshot.contracts:
        for window in contract.windows:
            key = contract.contract, window.window
            yield (*key, ""), window, (window.total,)
            for group in window.groups:
                yield (*key, group.group_by), group, group.rows


def _instant(at: int) -> str:
    """Return an instant as ISO text with zone, for both databases."""
    return to_datetime(at).isoformat(sep=" ")

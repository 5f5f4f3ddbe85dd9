"""Published values in tables for people who may read nothing else: Grafana, notebooks.

A row says what a Snapshot said, in SQL's terms; NULL is withheld. Rows are kept by the UTC day of
the Snapshot's watermark: the newest publication of a day replaces the older ones. Nothing but a
:class:`~monitor.core.publish.snapshot.Snapshot` gets in, and only the privacy guards make one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any

import sqlalchemy as sa

from monitor.core.contract import Metric
from monitor.core.publish.snapshot import (
    GroupTable,
    ShownGap,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
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
"""Kinds of a window's periods: selection and blocked rates, and the rates that need labels."""

_Row = dict[str, Any]
_RATE = ("value", "lower", "upper", "at_least", "at_most", "support")
_GAP = (
    *("reference", "gap", "gap_lower", "gap_upper"),
    *("ratio", "ratio_lower", "ratio_upper", "verdict"),
)


def write_published(connection: sa.Connection, snapshot: Snapshot) -> None:
    """Make the tables show a Snapshot on the day of its watermark.

    Rows that stay the same are not written again. Before the first watermark there is no day, nor
    before 1970 (events that say so are dated wrongly, and databases differ in what they take).

    Args:
        connection: the transaction in which the Snapshot itself is stored.
        snapshot: what is published.
    """
    if snapshot.watermark is None or snapshot.watermark < 0:
        return
    day = to_datetime(snapshot.watermark).date()
    for table, rows in (
        (published_contract, _contracts(snapshot, snapshot.watermark)),
        (published_limit, _limits(snapshot)),
        (published_window, _windows(snapshot)),
        (published_rate, _rates(snapshot)),
        (published_calibration, _calibrations(snapshot)),
    ):
        _replace(connection, table, day, list(rows))


def delete_before(engine: sa.Engine, before: int) -> None:
    """Delete the days that lie wholly before an instant, each in a transaction of its own.

    Args:
        engine: the store.
        before: event time.
    """
    day = published_contract.c.day
    query = sa.select(day).where(day < to_datetime(before).date()).distinct().order_by(day)
    with reading(engine) as connection:
        days = connection.execute(query).scalars().all()
    for one in days:
        with writing(engine) as connection:
            for table in PUBLISHED:
                connection.execute(sa.delete(table).where(table.c.day == one))


def delete_after(connection: sa.Connection, end: int) -> None:
    """Delete the days that lie wholly after an instant of event time."""
    for table in PUBLISHED:
        connection.execute(sa.delete(table).where(table.c.day > to_datetime(end).date()))


def forget(
    connection: sa.Connection, group_by: Callable[[str], bool], part: Callable[[str], bool]
) -> None:
    """Delete what was published of forgotten attributes and values.

    Args:
        connection: a transaction.
        group_by: whether a group-by goes as a whole.
        part: whether a slice goes, or what is compared with it as its reference.
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


def _replace(connection: sa.Connection, table: sa.Table, day: date, rows: Sequence[_Row]) -> None:
    """Make these the rows of a day."""
    keys = [column for column in table.primary_key if column.name != "day"]
    stored = connection.execute(sa.select(*keys).where(table.c.day == day)).all()
    wanted = {tuple(row[key.name] for key in keys) for row in rows}
    gone = sorted({tuple(row) for row in stored} - wanted)
    if gone:
        columns = zip((key.name for key in keys), zip(*gone, strict=True), strict=True)
        bulk.delete(connection, table, {"day": [str(day)] * len(gone), **dict(columns)})
    names = [column.name for column in table.columns if column.name != "day"]
    values = {name: [row[name] for row in rows] for name in names}
    bulk.insert(
        connection, table, {"day": [str(day)] * len(rows), **values}, _if_other(connection, table)
    )


def _if_other(connection: sa.Connection, table: sa.Table) -> str:
    """Text after ON CONFLICT: a row is written again only where it says something else."""
    keys = ", ".join(column.name for column in table.primary_key)
    rest = [column.name for column in table.columns if not column.primary_key]
    new = ", ".join(f"{name} = excluded.{name}" for name in rest)
    ours, theirs = (", ".join(f"{of}.{name}" for name in rest) for of in (table.name, "excluded"))
    # Only newer SQLite knows the standard's words.
    differs = "IS NOT" if connection.dialect.name == "sqlite" else "IS DISTINCT FROM"
    return f"({keys}) DO UPDATE SET {new} WHERE ({ours}) {differs} ({theirs})"


def _contracts(snapshot: Snapshot, watermark: int) -> Iterator[_Row]:
    for table in snapshot.contracts:
        yield {
            "contract": table.contract,
            "version": table.version,
            "owner": table.owner,
            "synthetic": table.synthetic,
            "k": table.k,
            "verdict_window": table.window,
            "complete_to": _instant(watermark),
            "labels_mature_to": None if snapshot.frontier is None else _instant(snapshot.frontier),
        }


def _limits(snapshot: Snapshot) -> Iterator[_Row]:
    for table in snapshot.contracts:
        limits = {
            "max_gap": table.max_gaps,
            "min_level": table.min_levels,
            "max_level": table.max_levels,
            "min_support": table.min_supports,
        }
        for metric in Metric:
            values = {name: by_metric.get(metric) for name, by_metric in limits.items()}
            if any(value is not None for value in values.values()):
                yield {"contract": table.contract, "metric": metric.value, **values}


def _windows(snapshot: Snapshot) -> Iterator[_Row]:
    for where, table, _ in _groups(snapshot):
        for kind, period in ((DECISIONS, table.decisions), (LABELLED, table.labelled)):
            if period is not None:
                yield {
                    **where,
                    "kind": kind,
                    "starts_at": _instant(period.start),
                    "ends_at": _instant(period.end),
                    "data_lost": period.data_lost,
                    "excluded": period.excluded,
                }


def _rates(snapshot: Snapshot) -> Iterator[_Row]:
    for where, _, rows in _groups(snapshot):
        for row in rows:
            for metric in row.states:
                yield {**where, "slice": row.slice, **_metric(row, metric)}


def _metric(row: SliceRow, metric: Metric) -> _Row:
    return {
        "metric": metric.value,
        "kind": LABELLED if metric.labelled else DECISIONS,
        "state": row.states[metric].value,
        **_shown_rate(row.rates.get(metric)),
        **_shown_gap(row.gaps.get(metric)),
        "as_labelled": row.as_labelled.get(metric),
        "completeness": row.completeness if metric.labelled else None,
    }


def _shown_rate(rate: ShownRate | None) -> _Row:
    return {name: getattr(rate, name, None) for name in _RATE}


def _shown_gap(gap: ShownGap | None) -> _Row:
    if gap is None:
        return dict.fromkeys(_GAP)
    return {
        "reference": gap.reference,
        "gap": gap.value,
        "gap_lower": gap.lower,
        "gap_upper": gap.upper,
        "ratio": gap.ratio,
        "ratio_lower": gap.ratio_lower,
        "ratio_upper": gap.ratio_upper,
        "verdict": None if gap.verdict is None else gap.verdict.value,
    }


def _calibrations(snapshot: Snapshot) -> Iterator[_Row]:
    for where, _, rows in _groups(snapshot):
        for row in rows:
            for cell in row.calibration:
                yield {**where, "slice": row.slice, "band": cell.band, **_shown_rate(cell.rate)}


def _groups(
    snapshot: Snapshot,
) -> Iterator[tuple[_Row, WindowTable | GroupTable, Sequence[SliceRow]]]:
    """Every group-by of every window, the total first: its key, its table, its slices."""
    for contract in snapshot.contracts:
        for window in contract.windows:
            where = {"contract": contract.contract, "window_name": window.window}
            yield {**where, "group_by": ""}, window, (window.total,)
            for group in window.groups:
                yield {**where, "group_by": group.group_by}, group, group.rows


def _instant(at: int) -> str:
    """As text both databases understand; SQLite has no type of its own."""
    return to_datetime(at).isoformat(sep=" ")

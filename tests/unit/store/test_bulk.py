"""Many rows at once say the same, whatever their columns are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.store import bulk

WIDTH = ("a", "b", "c")


def table() -> sa.Table:
    return sa.Table(
        "numbers",
        sa.MetaData(),
        sa.Column("a", sa.BigInteger, primary_key=True),
        *(sa.Column(name, sa.BigInteger) for name in WIDTH[1:]),
    )


def stored(columns: bulk.Columns, *, twice: bool = False) -> tuple[int, list[tuple[Any, ...]]]:
    """Rows that the last insert touched, and all that are there."""
    engine, numbers = sa.create_engine("sqlite://"), table()
    numbers.create(engine)
    with engine.begin() as connection:
        touched = bulk.insert(connection, numbers, columns)
        if twice:
            touched = bulk.insert(connection, numbers, columns)
        found = connection.execute(sa.select(numbers).order_by("a")).all()
    engine.dispose()
    return touched, [tuple(row) for row in found]


@pytest.mark.parametrize("rows", [0, 1, 49, 50, 51, 123])
def test_arrays_lists_and_a_mixture(rows: int) -> None:
    arrays = {name: np.arange(rows) * 2**40 - place for place, name in enumerate(WIDTH)}
    lists = {name: column.tolist() for name, column in arrays.items()}
    expected = rows, list(zip(*lists.values(), strict=True))
    assert stored(arrays) == stored(lists) == stored({**arrays, "b": lists["b"]}) == expected


def test_rows_that_are_there_are_not_touched() -> None:
    columns = {name: np.arange(77) for name in WIDTH}
    assert stored(columns, twice=True)[0] == 0

"""Results of bias evaluations: one row per dimension and day; the last result wins."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from monitor.core.bias_scores import BiasScore
from monitor.store import bulk
from monitor.store.database import reading
from monitor.store.schema import bias_score

_COLUMNS = tuple(column.name for column in bias_score.columns)


def write_bias_scores(connection: sa.Connection, results: Iterable[BiasScore]) -> None:
    """Insert or replace results by dimension and day, in order, in the flush's transaction."""
    rows = [{name: getattr(score, name) for name in _COLUMNS} for score in results]
    if not rows:
        return
    names = ", ".join(_COLUMNS)
    values = ", ".join(f":{name}" for name in _COLUMNS)
    query = f"INSERT INTO bias_score ({names}) VALUES ({values}) ON CONFLICT "
    connection.execute(sa.text(query + bulk.replacing(bias_score)), rows)


def read_bias_scores(engine: sa.Engine) -> list[BiasScore]:
    """Return all stored results, sorted by dimension and day."""
    query = sa.select(bias_score).order_by(bias_score.c.dimension, bias_score.c.day)
    with reading(engine) as connection:
        return [BiasScore(**row) for row in connection.execute(query).mappings()]

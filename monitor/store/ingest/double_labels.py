"""Decisions with several labels: what two reviewers said by themselves, and what it counts.

Nearly all decisions get one label, which is kept in ``label_state``. That table keeps the label
which counts and forgets the rest. When a second label comes, a row is made here of what the
reviewers said themselves. It is read and written under the lock of the decision's row of
``label_state``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import COUNTERS, Int64s
from monitor.core.counts.labels import RETRACTED, LabelColumns, Review, compared, first_two
from monitor.store import bulk
from monitor.store.schema import double_label

Key = tuple[int, int]
"""Hour and id of a decision."""

_KEY = ("hour", "id")
_FIELDS = tuple(column.name for column in double_label.c if not column.primary_key)
_NOBODY = Review(0, 0, 0, 0)


@dataclass(slots=True)
class ReviewerAnswer:
    """Reviews of one decision, and whether a label retracts them.

    Attributes:
        reviews: the reviewers' own words.
        retracted: whether a label takes back all that is said.
    """

    reviews: list[Review] = field(default_factory=list)
    retracted: bool = False


def reviewer_answers(labels: LabelColumns, keys: Sequence[Key]) -> dict[Key, ReviewerAnswer]:
    """Return the reviewers' answers by decision; ``keys`` holds the decision of each label."""
    answers: dict[Key, ReviewerAnswer] = {}
    columns = (keys, labels.reviews(), (labels.rank == RETRACTED).tolist())
    for key, review, retracted in zip(*columns, strict=True):
        decision = answers.setdefault(key, ReviewerAnswer())
        decision.retracted |= retracted
        if review is not None:
            decision.reviews.append(review)
    return answers


def count_pairs(
    connection: sa.Connection,
    earlier: Mapping[Key, ReviewerAnswer],
    newer: Mapping[Key, ReviewerAnswer],
) -> Int64s:
    """Store the first two reviews of decisions; return the counts that they add to their cells.

    A retraction takes the pair back along with the label that counts.

    Args:
        connection: the flush's transaction, which has locked ``label_state``.
        earlier: answers of the labels that counted before.
        newer: answers of the new labels.

    Returns:
        int64 of shape (len(newer), COUNTERS).
    """
    values = np.zeros((len(newer), COUNTERS), np.int64)
    stored = _read(connection, newer)
    changed: dict[Key, tuple[Review, ...]] = {}
    for row, (key, new) in enumerate(newer.items()):
        old, stored_pair = earlier.get(key, ReviewerAnswer()), stored.get(key, ())
        before = first_two([*stored_pair, *old.reviews])
        after = first_two([*before, *new.reviews])
        if after != stored_pair:
            changed[key] = after
        _add(values[row], before, -1, old.retracted)
        _add(values[row], after, 1, old.retracted or new.retracted)
    _write(connection, changed)
    return values


def _add(row: Int64s, pair: tuple[Review, ...], sign: int, retracted: bool) -> None:
    """Add ``sign`` to the counter of a pair of reviews, if there are two and none is retracted."""
    counter = compared(pair)
    if counter is not None and not retracted:
        row[counter] += sign


def _read(connection: sa.Connection, decisions: Collection[Key]) -> dict[Key, tuple[Review, ...]]:
    """Return the stored reviews, none to two, of these decisions."""
    pairs: dict[Key, tuple[Review, ...]] = {}
    for head, parameters in bulk.with_keys(connection, double_label, _KEY, sorted(decisions)):
        query = (
            f"{head} SELECT d.hour, d.id, {', '.join(_FIELDS)} FROM w, double_label d"
            " WHERE d.hour = w.hour AND d.id = w.id"
        )
        for hour, key, *columns in connection.exec_driver_sql(query, parameters):
            pair = Review(*columns[:4]), Review(*columns[4:])
            pairs[hour, key] = tuple(review for review in pair if review != _NOBODY)
    return pairs


def _write(connection: sa.Connection, changed: Mapping[Key, tuple[Review, ...]]) -> None:
    """Insert or replace the reviews of these decisions, at most two of each."""
    if not changed:
        return
    keys = sorted(changed)
    pairs = [(*changed[key], _NOBODY)[:2] for key in keys]
    columns = zip(*((*first, *second) for first, second in pairs), strict=True)
    hours, ids = zip(*keys, strict=True)
    bulk.insert(
        connection,
        double_label,
        {"hour": hours, "id": ids, **dict(zip(_FIELDS, columns, strict=True))},
        bulk.replacing(double_label),
    )

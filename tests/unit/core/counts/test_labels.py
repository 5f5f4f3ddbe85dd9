"""What the standing label adds to its cell, and that correcting is subtracting and adding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from monitor.core.counts.cells import COUNTERS, DELAY_EDGES_HOURS, Counter
from monitor.core.counts.labels import (
    KIND_RANKS,
    NOT_READY,
    READY,
    UNDECIDABLE,
    LabelColumns,
    Review,
)
from monitor.core.time import HOUR, WEEK

T0 = 400_000 * HOUR


def row(
    kind: str = "initial",
    ready: int = READY,
    complaint: int = 0,
    revision: int = 1,
    *,
    blind: int = 0,
    delay: int = 0,
    reviewer: int = 0,
) -> tuple[int, ...]:
    order = (KIND_RANKS[kind], revision, T0 + delay, 9)
    return (1, T0, complaint, *order, ready, blind, reviewer)


def added(*rows: tuple[int, ...]) -> list[dict[str, int]]:
    labels = LabelColumns.from_rows(rows)
    table = labels.contributions(np.full(len(rows), T0, np.int64))
    assert table.shape == (len(rows), COUNTERS)
    return [{Counter(i).name: v for i, v in enumerate(values) if v} for values in table.tolist()]


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        (row(), {"LABELLED": 1, "READY": 1, "DELAY_0": 1}),
        (row(ready=NOT_READY), {"LABELLED": 1, "DELAY_0": 1}),
        (row(ready=UNDECIDABLE), {"UNDECIDABLE": 1}),
        (row(blind=1), {"LABELLED": 1, "READY": 1, "BLIND": 1, "BLIND_READY": 1, "DELAY_0": 1}),
        (row(blind=1, ready=NOT_READY), {"LABELLED": 1, "BLIND": 1, "DELAY_0": 1}),
        (row(blind=1, ready=UNDECIDABLE), {"UNDECIDABLE": 1}),
        (row("retraction"), {"REVISED": 1}),
        (row("correction"), {"LABELLED": 1, "READY": 1, "REVISED": 1, "DELAY_0": 1}),
        (row(revision=2), {"LABELLED": 1, "READY": 1, "REVISED": 1, "DELAY_0": 1}),
        (row(complaint=1), {"COMPLAINTS": 1}),
        (row("correction", complaint=1, blind=1), {"COMPLAINTS": 1}),
        (row("retraction", complaint=1), {}),
    ],
)
def test_contributions(label: tuple[int, ...], wanted: dict[str, int]) -> None:
    assert added(label) == [wanted]


def test_the_last_bucket_begins_after_a_week() -> None:
    assert DELAY_EDGES_HOURS[-1] * HOUR == WEEK


@pytest.mark.parametrize(("bucket", "edge"), list(enumerate(DELAY_EDGES_HOURS)))
def test_delay_buckets_end_before_their_edge(bucket: int, edge: int) -> None:
    below, at = added(row(delay=edge * HOUR - 1), row(delay=edge * HOUR))
    assert below[f"DELAY_{bucket}"] == 1
    assert at[f"DELAY_{bucket + 1}"] == 1


def test_a_label_before_its_decision_has_no_delay() -> None:
    assert added(row(delay=-HOUR))[0]["DELAY_0"] == 1


def test_labelled_is_the_sum_of_its_delays_and_bounds_the_rest() -> None:
    choices = itertools.product(KIND_RANKS, (0, 1, 2), (0, 1), (1, 2), (0, 1), (0, 500 * HOUR))
    table = LabelColumns.from_rows([row(*c[:4], blind=c[4], delay=c[5]) for c in choices])
    values = table.contributions(np.full(len(table), T0, np.int64))
    labelled = values[:, Counter.LABELLED]
    assert (values[:, Counter.DELAY_0 : Counter.DELAY_7 + 1].sum(axis=1) == labelled).all()
    for part in (Counter.READY, Counter.BLIND, Counter.BLIND_READY):
        assert (values[:, part] <= labelled).all()
    assert (values >= 0).all()
    assert (labelled + values[:, Counter.UNDECIDABLE] + values[:, Counter.COMPLAINTS] <= 1).all()


@pytest.mark.parametrize(
    ("label", "own"),
    [
        (row(reviewer=7), True),
        (row(reviewer=7, ready=NOT_READY, revision=3, blind=1), True),
        (row(), False),
        (row(reviewer=7, ready=UNDECIDABLE), False),
        (row(reviewer=7, complaint=1), False),
        *((row(kind, reviewer=7), False) for kind in KIND_RANKS if kind != "initial"),
    ],
)
def test_what_is_a_reviewer_s_own_word(label: tuple[int, ...], own: bool) -> None:
    """Who corrects or decides between others knows what they said; nobody knows who nobody is."""
    review = Review(label[5], label[6], 7, label[7])
    assert LabelColumns.from_rows([label]).reviews() == [review if own else None]


def test_columns_of_nothing() -> None:
    assert len(LabelColumns.empty()) == 0
    assert len(LabelColumns.concat([])) == 0
    assert LabelColumns.empty().contributions(np.empty(0, np.int64)).shape == (0, COUNTERS)


def test_concat_then_take_gives_the_parts_back() -> None:
    first, second = LabelColumns.from_rows([row(), row(blind=1)]), LabelColumns.from_rows([row()])
    both = LabelColumns.concat([first, second])
    assert len(both) == 3
    assert both.take(np.array([2])).blind.tolist() == [False]
    assert both.take(np.array([False, True, False])).blind.tolist() == [True]

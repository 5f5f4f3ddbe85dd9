"""What of new counts comes too late to be published."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.cells import COUNTERS, Counter, Int64s
from monitor.core.time import HOUR, MINUTE
from monitor.evaluate.blocks.units import Gate

STEP = 5 * MINUTE
LABELS = [c for c in Counter if c not in (Counter.N, Counter.Q)]
FULL = np.arange(1, COUNTERS + 1, dtype=np.int64)


def split(
    gate: Gate, at: int, left_out: bool = False, unlabelled: bool = False
) -> tuple[Int64s, Int64s]:
    """One row of the 5-minute pane that begins at an instant."""
    flags = (np.array([left_out]), np.array([unlabelled]))
    through, held = gate.split(np.array([at]), FULL[None].copy(), *flags)
    return through[0], held[0]


def through(gate: Gate, at: int, left_out: bool = False, unlabelled: bool = False) -> set[Counter]:
    """The counters that are let through; each is whole or held back."""
    passed, held = split(gate, at, left_out, unlabelled)
    assert ((passed == FULL) & (held == 0) | (passed == 0) & (held == FULL)).all()
    return {counter for counter in Counter if passed[counter]}


EVERYTHING = set(Counter)


def test_at_first_nothing_is_late() -> None:
    assert through(Gate(None, None), 0) == EVERYTHING


@pytest.mark.parametrize(
    ("at", "late"), [(HOUR - 2 * STEP, True), (HOUR - STEP, True), (HOUR, False), (2 * HOUR, False)]
)
def test_a_decision_is_late_once_its_five_minutes_are_closed(at: int, late: bool) -> None:
    passed = through(Gate(HOUR, None), at)
    assert (Counter.N in passed, Counter.Q in passed) == (not late, not late)
    assert set(LABELS) <= passed


@pytest.mark.parametrize(
    ("at", "late"), [(0, True), (HOUR - STEP, True), (HOUR, False), (2 * HOUR - STEP, False)]
)
def test_a_label_is_late_once_its_hour_is_behind_the_frontier(at: int, late: bool) -> None:
    passed = through(Gate(3 * HOUR, HOUR), at)
    assert passed == (set() if late else set(LABELS))


def test_labels_come_long_after_their_decisions() -> None:
    assert through(Gate(30 * HOUR, 0), HOUR) == set(LABELS)


def test_what_is_left_out_is_in_no_table() -> None:
    assert through(Gate(None, None, 2 * HOUR), 0, left_out=True) == set()
    assert through(Gate(HOUR, None, 2 * HOUR), HOUR, left_out=True, unlabelled=True) == set()


def test_hours_after_the_next_stop_are_sifted_then() -> None:
    """By the maps that hold then: what is left out now may be in."""
    passed = through(Gate(HOUR, HOUR, 2 * HOUR), 2 * HOUR, left_out=True, unlabelled=True)
    assert passed == EVERYTHING


def test_labels_that_are_not_given_are_not_asked_for_either() -> None:
    """Else completeness would tell how many there were."""
    assert through(Gate(None, None, HOUR), 0, unlabelled=True) == {Counter.N}


def test_the_rows_given_are_not_changed() -> None:
    given_rows = np.tile(FULL, (3, 1))
    no = np.zeros(3, bool)
    Gate(HOUR, HOUR).split(np.array([0, HOUR, 2 * HOUR]), given_rows, no, ~no)
    assert (given_rows == FULL).all()


@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()), min_size=1, max_size=9),
    st.none() | st.integers(0, 40),
    st.none() | st.integers(0, 3),
    st.integers(-5, 5),
)
def test_both_parts_are_together_what_came(
    rows: list[tuple[int, bool, bool]], decisions: int | None, labels: int | None, sign: int
) -> None:
    """Rows do not depend on each other; corrections are negative."""
    gate = Gate(
        None if decisions is None else decisions * STEP, None if labels is None else labels * HOUR
    )
    at = np.array([row[0] for row in rows]) * STEP
    left_out, unlabelled = (np.array([row[i] for row in rows]) for i in (1, 2))
    values = np.outer(np.arange(len(rows)) + 1, FULL) * sign
    passed, held = gate.split(at, values, left_out, unlabelled)
    assert (passed + held == values).all()
    for i, (pane, *flags) in enumerate(rows):
        alone, _ = split(gate, pane * STEP, *flags)
        assert (passed[i] == alone * (i + 1) * sign).all()


def test_closing_later_never_holds_back_more() -> None:
    for at, early, late in product(range(0, 3 * HOUR, STEP), (None, HOUR, 2 * HOUR), (3 * HOUR,)):
        assert through(Gate(late, late), at) <= through(Gate(early, early), at)

"""Hours move the detectors alike, one by one or a day at a time, with stops or without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import pytest
from example_counts import examples
from fleet_cells import MONDAY, Cells, Traffic, coding, contract, limits, with_odd_hours
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_detection import KeptDetection

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import Counter, Counts
from monitor.core.counts.rollup import CellIndex
from monitor.core.time import HOUR, TimeSpan
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy
from monitor.store.evaluator.stored_detection import FrozenCohort

CODING = coding(a="uvw", b="xy")
CELLS = Cells(tuple(f"a={a},b={b}" for a in "uvw" for b in "xy"))
BY_A, BY_BOTH = GroupBy(("a",), "a=v"), GroupBy(("a", "b"))
LIMITS = replace(
    limits(floor="0.80", ceiling="0.20"),
    max_selection_gap=Fraction("0.10"),
    min_selection_ratio=Fraction("0.8"),
    max_precision_gap=Fraction("0.05"),
)
CONTRACTS = contract(BY_BOTH, of=LIMITS), contract(BY_A, of=LIMITS, where="b=x")
FIRST, HOURS = MONDAY - 20, 68
"""From a Sunday morning on: two days are not whole, and a week ends."""


@dataclass
class Odd(KeptDetection):
    """The slice a=u is badly served; other audit rates come in the midst of a day."""

    index: ClassVar[CellIndex] = CELLS.index

    def feed(self, hour: int) -> Counts:
        rng, since = np.random.default_rng(hour), hour - FIRST
        served = np.where([atom.startswith("a=u") for atom in CELLS.atoms], 0.4, 0.9)
        audit = 0 if since < 30 else 1 if since < 50 else since % 3 + 1
        counts = CELLS.hour(rng, Traffic(hourly=60, tpr=served, audit=audit))
        labelled = counts.values[:, Counter.LABELLED]
        counts.values[:, Counter.Q] = labelled + rng.binomial(labelled, 0.03)
        counts.values[:, Counter.DELAY_0] = rng.binomial(labelled, 0.4)
        counts.values[:, Counter.DELAY_4] = labelled - counts.values[:, Counter.DELAY_0]
        counts = with_odd_hours(counts, since)
        return counts if since < 56 else CELLS.renewed(counts)


def lived(ends: Iterable[int]) -> dict[str, Any]:
    """All that is kept of the hours, of which those up to each end are known at each start."""
    bad = TimeSpan((FIRST + 37) * HOUR, (FIRST + 39) * HOUR)
    policy = DetectionPolicy(CONTRACTS, CODING, 2, completeness=Fraction(1), live=True)
    one = Odd(policy, first=FIRST, hollow=frozenset({FIRST + 60}), excluded=(bad,))
    listed = [x.listed for end in ends for x in one.run(end) if x.listed is not None]
    # Ids are given in the order of steps: closed hours of a day are before those with labels.
    crossings = sorted(str(replace(one, id=0)) for one in one.state.crossings)
    cohorts = [str(list(map(_plain, some))) for some in (one.cohorts, one.closed)]
    return {**one.state.parts, "crossings": crossings, "listed": listed, "cohorts": cohorts}


def _plain(one: FrozenCohort) -> tuple[Any, ...]:
    counts = one.counts
    return one.hour, one.state, one.live, counts.keys.tolist(), counts.values.tolist()


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of what is not the same, bit by bit."""
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


@pytest.fixture(scope="module")
def one_by_one() -> dict[str, Any]:
    """With a stop after every hour."""
    return lived(range(1, HOURS + 1))


def test_there_is_something_to_compare(one_by_one: dict[str, Any]) -> None:
    streams = "".join(one_by_one["crossings"])
    assert all(f"|{metric}|" in streams for metric in ("tpr", "selection"))
    assert len(one_by_one["listed"]) == 1


def test_days_move_what_their_hours_move_one_by_one(one_by_one: dict[str, Any]) -> None:
    assert not differing(lived([HOURS]), one_by_one)


@given(st.lists(st.integers(1, 40), min_size=1))
@settings(max_examples=examples(5), deadline=None)
def test_any_split_of_the_hours_moves_the_same(
    one_by_one: dict[str, Any], steps: list[int]
) -> None:
    ends = [*(end for end in accumulate(steps) if end < HOURS), HOURS]
    assert not differing(lived(ends), one_by_one)

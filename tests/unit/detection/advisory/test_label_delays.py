from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from slice_tables import auto, blocked, counted, review, slice_counts

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import DELAY_EDGES_HOURS
from monitor.core.counts.coding import Attribute, Coding
from monitor.detection.advisory.label_delays import (
    CONFIDENCE,
    DelayDifference,
    DelayTally,
    Timing,
    WeeklyDelays,
    delay_counts,
)

BUCKETS = len(DELAY_EDGES_HOURS) + 2
AUDIT = np.array([0.02, 0.03, 0.05, 0.2, 0.3, 0.3, 0.07, 0.0, 0.03])
REVIEW = np.array([0.6, 0.2, 0.1, 0.05, 0.03, 0.0, 0.0, 0.0, 0.02])


def tally_of(slice_: list[int], reference: list[int]) -> DelayTally:
    shape = (1, 1, len(slice_))
    return DelayTally.from_labels(
        np.array(slice_).reshape(shape), np.array(reference).reshape(shape)
    )


def test_mean_and_variance_against_all_draws() -> None:
    """4 of 9 labels, every choice equally likely."""
    delays = np.array([0, 0, 1, 2, 2, 3, 5, 5, 8])
    everything = np.bincount(delays, minlength=BUCKETS)
    excesses, variances = [], set()
    for chosen in combinations(range(len(delays)), 4):
        mine = np.bincount(delays[list(chosen)], minlength=BUCKETS)
        tally = tally_of(mine.tolist(), (everything - mine).tolist())
        by_hand = delays[list(chosen)].sum() - 4 * delays.mean()
        assert tally.excess[0] == pytest.approx(by_hand)
        excesses.append(tally.excess[0])
        variances.add(round(float(tally.variance[0]), 9))
    assert np.mean(excesses) == pytest.approx(0, abs=1e-12)
    assert variances == {round(float(np.var(excesses)), 9)}


def test_the_size_is_the_difference_of_means() -> None:
    tally = tally_of([0, 0, 4, 4], [6, 2, 0, 0])
    assert tally.excess[0] / tally.pairs[0] == pytest.approx(2.5 - 0.25)


def test_one_side_alone_tells_nothing() -> None:
    for tally in (tally_of([3, 2], [0, 0]), tally_of([0, 0], [3, 2]), tally_of([1, 0], [0, 0])):
        assert [tally.excess[0], tally.variance[0], tally.pairs[0]] == [0, 0, 0]
        assert tally.differences(1) == [None]


def test_swapping_the_sides_turns_the_sign() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.integers(0, 20, (2, 5, 2, BUCKETS))
    there, back = DelayTally.from_labels(one, other), DelayTally.from_labels(other, one)
    assert there.excess == pytest.approx(-back.excess)
    assert there.variance == pytest.approx(back.variance)
    assert there.pairs == pytest.approx(back.pairs)


def delayed(shares: np.ndarray, by: int) -> np.ndarray:
    """The same delays, so many buckets later; what is beyond the last one has not come."""
    if by == 0:
        return shares
    kept = np.pad(shares[:, :-by], ((0, 0), (by, 0)))
    kept[:, -1] += shares[:, -by:].sum(axis=1)
    return kept


def week(
    rng: np.random.Generator,
    hourly: int,
    weeks: int,
    *,
    review_share: tuple[float, float] = (0.5, 0.5),
    by: int = 0,
    share: float = 1.0,
) -> DelayTally:
    """Weeks as rows, of 168 cohorts; at night labels come later, and the slice is busier."""
    total = DelayTally.empty(weeks)
    for hour in range(168):
        night = hour % 24 < 8
        sides = []
        for side, busy in enumerate((2 if night else 1, 1)):
            shares = delayed(np.stack([AUDIT, REVIEW]), 2 if night else 0)
            if side == 0:
                shares = (1 - share) * shares + share * delayed(shares, by)
            volume = np.array([1 - review_share[side], review_share[side]]) * hourly * busy
            sides.append(
                np.stack(
                    [
                        rng.multinomial(rng.poisson(v, weeks), p)
                        for v, p in zip(volume, shares, strict=True)
                    ],
                    axis=1,
                )
            )
        total = total + DelayTally.from_labels(*sides)
    return total


@pytest.mark.full
def test_equal_delays_are_told_apart_in_one_percent_of_weeks() -> None:
    """Although routes and hours are mixed differently, and their delays differ by days."""
    tally = week(np.random.default_rng(5), 3, 2000, review_share=(0.2, 0.9))
    z = np.abs(tally.excess) / np.sqrt(tally.variance)
    assert np.mean(z > 2.5758) == pytest.approx(1 - CONFIDENCE, abs=0.006)
    assert tally.differences(1).count(None) >= 2000 * CONFIDENCE


@pytest.mark.parametrize("buckets", [1, 2])
def test_later_labels_are_told(buckets: int) -> None:
    tally = week(np.random.default_rng(6), 3, 100, by=buckets)
    expected = DelayDifference(Timing.LATER, buckets)
    assert tally.differences(5).count(expected) >= 95
    earlier = DelayTally(-tally.excess, tally.variance, tally.pairs)
    assert earlier.differences(5).count(DelayDifference(Timing.EARLIER, buckets)) >= 95


def test_small_differences_and_few_labels_are_not_told() -> None:
    busy = week(np.random.default_rng(7), 60, 20, by=1, share=0.25)
    assert (np.abs(busy.excess) > 5 * np.sqrt(busy.variance)).all()
    assert busy.differences(1) == [None] * 20
    assert tally_of([0, 0, 0, 9], [9, 0, 0, 0]).differences(1) == [None]
    for enough in (10, 90):
        found = tally_of([0, 0, 0, enough], [enough, 0, 0, 0]).differences(1)
        assert found == [DelayDifference(Timing.LATER, 3)]


def test_clusters_widen_what_is_sure() -> None:
    tally = tally_of([0, 20, 30], [20, 20, 10])
    assert tally.differences(1) == [DelayDifference(Timing.LATER, 1)]
    assert tally.differences(1, cluster_size=20) == [None]


def test_a_reference_is_not_compared_with_itself() -> None:
    coding = Coding((Attribute("a", ("u", "v")),))
    against_u = WeeklyDelays.start(GroupBy(("a",), "a=u"), coding, 1)
    assert (against_u.slices, against_u.tally.excess.size) == (("a=__other__", "a=v"), 2)
    all_of_them = ("a=__other__", "a=u", "a=v")
    assert WeeklyDelays.start(GroupBy(("a",)), coding, 1).slices == all_of_them


def test_labels_by_route_and_delay_with_what_has_not_come() -> None:
    counts = slice_counts(
        {
            "a": {
                review(0): counted(10, 8, 4, q=10, delay_0=5, delay_2=3, undecidable=1),
                review(1): counted(4, 4, 4, q=4, delay_7=4),
                auto(2): counted(90, 2, 2, q=5, delay_4=2),
                blocked(): counted(9, 9, 0, q=9, delay_0=9),
            },
            "b": {},
        }
    )
    table = delay_counts(counts)
    assert table.shape == (2, 2, BUCKETS)
    assert table[0].tolist() == [[0, 0, 0, 0, 2, 0, 0, 0, 3], [5, 0, 3, 0, 0, 0, 0, 4, 1]]
    assert not table[1].any()

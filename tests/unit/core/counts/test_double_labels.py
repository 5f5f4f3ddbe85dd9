"""Which two reviewers of a decision are compared: the same whatever comes when and how often."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.cells import Counter
from monitor.core.counts.labels import NOT_READY, READY, Review, compared, first_two

REVIEWS = st.lists(
    st.builds(
        Review, st.integers(0, 4), st.integers(0, 4), st.integers(1, 4), st.sampled_from([0, 1])
    ),
    max_size=9,
)


def first_of_each(reviews: list[Review]) -> dict[int, Review]:
    reviewers = {review.reviewer for review in reviews}
    return {who: min(r for r in reviews if r.reviewer == who) for who in reviewers}


@given(REVIEWS)
def test_they_are_the_earliest_of_the_first_of_each_reviewer(reviews: list[Review]) -> None:
    assert list(first_two(reviews)) == sorted(first_of_each(reviews).values())[:2]


@given(REVIEWS, st.integers(0, 2**32 - 1))
def test_order_repetition_and_batching_change_nothing(reviews: list[Review], seed: int) -> None:
    """Only the first two are kept between batches."""
    pick = random.Random(seed)
    arrivals = reviews + pick.choices(reviews, k=4) if reviews else []
    pick.shuffle(arrivals)
    kept: tuple[Review, ...] = ()
    while arrivals:
        size = pick.randint(1, len(arrivals))
        kept = first_two([*kept, *arrivals[:size]])
        arrivals = arrivals[size:]
    assert kept == first_two(reviews)


@pytest.mark.parametrize(
    ("said", "counter"),
    [
        ([], None),
        ([READY], None),
        ([READY, READY], Counter.PAIRS_READY),
        ([NOT_READY, NOT_READY], Counter.PAIRS_NOT_READY),
        ([READY, NOT_READY], Counter.PAIRS_APART),
        ([NOT_READY, READY], Counter.PAIRS_APART),
        ([READY, READY, NOT_READY], Counter.PAIRS_READY),
    ],
)
def test_what_they_are_counted_as(said: list[int], counter: Counter | None) -> None:
    reviews = [Review(at, 9, at + 1, ready) for at, ready in enumerate(said)]
    assert compared(first_two(reviews)) == counter


def test_one_reviewer_is_no_pair_however_often() -> None:
    assert compared(first_two([Review(at, at, 7, at % 2) for at in range(4)])) is None

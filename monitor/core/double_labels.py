"""Decisions that two reviewers labelled, each by themselves: which two words are compared.

Compared are the two reviewers who spoke first, each by what they said first. Keeping the first two
of more than two loses nothing that later ones could need, so any order of arrival and any
repetition ends in the same pair.

Example:
    >>> late, early, again = Review(9, 1, 70, 1), Review(5, 2, 80, 0), Review(7, 3, 80, 1)
    >>> [review.ready for review in first_two([late, again, early])]
    [0, 1]
    >>> compared(first_two([late, again, early])).name
    'PAIRS_APART'
    >>> compared(first_two([early, again])) is None
    True
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from monitor.core.cells import Counter


class Review(NamedTuple):
    """A reviewer's own word about one decision; reviews are ordered as their fields are.

    Attributes:
        labelled_at: microseconds.
        label: hash of the label id.
        reviewer: keyed hash of the decision and the reviewer, never 0.
        ready: 1 ready, 0 not ready.
    """

    labelled_at: int
    label: int
    reviewer: int
    ready: int


def first_two(reviews: Iterable[Review]) -> tuple[Review, ...]:
    """The first reviews of the two reviewers who spoke first, in order; fewer if there are."""
    firsts: dict[int, Review] = {}
    for review in sorted(reviews):
        firsts.setdefault(review.reviewer, review)
    return tuple(firsts.values())[:2]


def compared(pair: tuple[Review, ...]) -> Counter | None:
    """What a decision with these reviews is counted as; None without a second reviewer."""
    if len(pair) < 2:  # noqa: PLR2004 - a pair
        return None
    if pair[0].ready != pair[1].ready:
        return Counter.PAIRS_APART
    return Counter.PAIRS_READY if pair[0].ready else Counter.PAIRS_NOT_READY

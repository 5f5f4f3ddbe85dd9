"""What is known of counts by sums, where guesses contradict what was published."""

from __future__ import annotations

import numpy as np

from monitor.core.tables.narrowing import Sums, narrowed


def test_with_a_count_that_cannot_be_all_guesses_about_it_are_given_up() -> None:
    """By the first guess there is less of a part than nothing: the second is not believed either.

    Counts are 0 to 3, 0 to 1, and 3 to 8; guesses: the middle one is the sum of both others, and
    the first equals the last.
    """
    low, high = np.array([0, 0, 3]), np.array([3, 1, 8])
    guesses = Sums.join(
        [Sums.from_cells(1, [[2, 0]], doubtful=True), Sums.from_cells(0, [[2]], doubtful=True)]
    )
    assert [ends.tolist() for ends in narrowed(low, high, guesses)] == [[0, 0, 3], [3, 1, 8]]

"""What is known of counts by sums, where guesses contradict what was published."""

from __future__ import annotations

import numpy as np

from monitor.core.tables.narrowing import Sums, narrowed


def test_two_guesses_that_contradict_each_other_in_a_shared_part_are_given_up() -> None:
    """By the first sum the shared part is at least 5, by the second at most 3."""
    first_whole, second_whole, shared, first_rest, second_rest = range(5)
    guesses = Sums.join(
        [
            Sums.of(first_whole, [[shared, first_rest]], doubtful=True),
            Sums.of(second_whole, [[shared, second_rest]], doubtful=True),
        ]
    )
    low, high = narrowed(np.array([10, 3, 0, 0, 0]), np.array([10, 3, 10, 5, 3]), guesses)
    assert (low <= high).all()

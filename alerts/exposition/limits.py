"""Limits that hold numbers down: no flood of distinct things can fill memory or the exposition."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

HOLD_SECONDS = 3600.0
"""A limit counts as reached for so long after it was: an alert neither flaps nor misses it."""
MANY_VALUES = 1_000
"""Distinct unlisted values of one attribute in one day beyond which it is no closed list: twenty
times as many as an allow-list may have. A long tail of rare values stays below it, free text and
floods do not."""


class Limit(enum.StrEnum):
    """Subject of a limit; a closed list, so that the number of series is fixed."""

    SERIES = "series"  # the slice page is over max_series: whole families are left out
    VERSIONS = "versions"  # version tuples found no room within max_versions
    VALUES = "values"  # an attribute has more than MANY_VALUES distinct unlisted values


class ReachedLimits:
    """Limits that are reached now, or were within the last hour.

    Example:
        >>> now = 0.0
        >>> limits = ReachedLimits(lambda: now)
        >>> limits.set_reached(Limit.SERIES, True)
        >>> limits.set_reached(Limit.SERIES, False)
        >>> [limit.value for limit, reached in limits.reached().items() if reached]
        ['series']
        >>> now = HOLD_SECONDS
        >>> any(limits.reached().values())
        False
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with no limit reached.

        Args:
            clock: monotonic seconds.
        """
        self._clock = clock
        self._until = dict.fromkeys(Limit, -math.inf)

    def set_reached(self, limit: Limit, reached: bool) -> None:
        """Record whether a limit is reached now; it stays so until the next call."""
        if reached:
            self._until[limit] = math.inf
        elif self._until[limit] == math.inf:
            self._until[limit] = self._clock() + HOLD_SECONDS

    def reached(self) -> dict[Limit, bool]:
        """Every limit, and whether it is or lately was reached."""
        now = self._clock()
        return {limit: now < until for limit, until in self._until.items()}

"""Evidence within a day whose largest cluster is not known yet.

Decisions of one unit may depend on each other in any way. A product of e-values whose decisions
have the powers w_i keeps its mean of at most 1 while the powers of every unit's decisions sum to at
most 1 (Hoelder). A labelled day is consumed when it is over: all its decisions have the power
1 / M, M being its largest unit. An hour that is consumed at once needs a power before M is known.

Let L_h bound the decisions of one unit up to the hour h of a day: it depends on the requests alone.
Powers w_h that never rise within the day and keep ``sum_h w_h (L_h - L_(h-1)) <= 1`` suffice: for a
unit with n_h decisions in each hour, summation by parts gives ``sum_h n_h w_h <= sum_h L_h (w_h -
w_(h+1)) = sum_h w_h (L_h - L_(h-1))``. So the powers begin with the expectation from former days.
When a day outgrows it, the remaining hours share the rest, which may be nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

_ROUNDING = 1e-12


@dataclass(slots=True)
class ClusterShare:
    """Share of each unit's evidence that a day has used; chooses the hours' divisors.

    Attributes:
        day: index of the UTC day; None before the first.
        counted: bound on the decisions of one unit so far, L_h.
        size: present divisor of log e, 1 / w_h; infinite when nothing is left.
        spent: the sum so far, at most 1.
    """

    day: int | None = None
    counted: int = 0
    size: float = 1.0
    spent: float = 0.0

    def enter(self, day: int, expected: int, counted: int) -> float:
        """Use up the share of the next hour, and return the hour's divisor of log e.

        Args:
            day: day of the hour; not before the last one.
            expected: expected largest unit of the day, from the days before; at least 1. A wrong
                one costs delay, never validity.
            counted: bound on the decisions of one unit from the begin of the day to the end of the
                hour.

        Example:
            >>> share = ClusterShare()
            >>> [share.enter(1, 4, counted) for counted in (1, 3, 4, 5)]
            [4.0, 4.0, 4.0, inf]
            >>> share.enter(2, 4, 6)
            6.0
        """
        if day != self.day:
            self.day, self.counted, self.size, self.spent = day, 0, float(expected), 0.0
        grown = counted - self.counted
        if grown > 0:
            left = 1 - self.spent
            if grown / self.size > left + _ROUNDING:
                self.size = grown / left if left > _ROUNDING else math.inf
            self.spent += grown / self.size
            self.counted = counted
        return self.size

    def facts(self) -> dict[str, Any]:
        """Return the whole state by field name, as JSON-serialisable values."""
        return asdict(self)

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Self:
        """Return the state that :meth:`facts` wrote."""
        return cls(**facts)

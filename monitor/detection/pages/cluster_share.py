"""Evidence within a day whose largest cluster is not known yet.

Decisions of one unit may depend on each other as they like. A product of e-values whose decisions
have the powers w_i keeps its mean of at most 1 while the powers of every unit's decisions sum to at
most 1 (Hoelder). With its labels a day is consumed when it is over: all of it has the power 1 / M,
M being its largest unit. An hour that is consumed at once has a power before M is known.

Let L_h bound the decisions of one unit up to the hour h of a day: a fact of the requests alone.
Powers w_h that never rise within the day and keep ``sum_h w_h (L_h - L_(h-1)) <= 1`` will do: a
unit with n_h decisions in each hour has, by summation by parts, ``sum_h n_h w_h <= sum_h L_h (w_h -
w_(h+1)) = sum_h w_h (L_h - L_(h-1))``. So the powers begin with what former days let expect, and
where a day outgrows that, the rest of it shares what is left, which may be nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

_ROUNDING = 1e-12


@dataclass(slots=True)
class ClusterShare:
    """The part of every unit that the evidence of a day has used; changed in place.

    Attributes:
        day: index of the UTC day; None before the first.
        counted: bound on the decisions of one unit so far, L_h.
        size: that log e is divided by now, 1 / w_h; infinite where nothing is left.
        spent: the sum so far, at most 1.
    """

    day: int | None = None
    counted: int = 0
    size: float = 1.0
    spent: float = 0.0

    def enter(self, day: int, expected: int, counted: int) -> float:
        """Divisor of log e of the next hour.

        Args:
            day: of the hour; not before the last one.
            expected: of the largest unit of the day, by what was known before it; at least 1. What
                it says costs delay, never validity.
            counted: bound on the decisions of one unit from the day's begin to the hour's end.

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
        """All that the state consists of."""
        return asdict(self)

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Self:
        """The state that :meth:`facts` gave."""
        return cls(**facts)

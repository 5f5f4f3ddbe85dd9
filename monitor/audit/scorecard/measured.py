"""Score of one dimension, as measured from its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.errors import AuditError


class UnmeasurableError(AuditError):
    """Error for readable but insufficient records, such as only one variant."""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """Part of a score: the value of one variant, slice or set.

    Attributes:
        name: name of the variant, slice or set.
        value: its rate, mean or share; None where it has none.
        items: number of items behind the value.
    """

    name: str
    value: float | None
    items: int


@dataclass(frozen=True, slots=True)
class MeasuredScore:
    """Score of one dimension with its interval and parts, as computed from records.

    Attributes:
        score: score in the measure's range.
        low: lower end of the interval; None where the measure has none.
        high: upper end of the interval.
        items: number of matched items, or records.
        left_out: number of items that lack a variant.
        parts: parts of the score, by name.
        p_value: p-value of the measure's test; None where it has none.
        moved: which parts are furthest apart, or which category moved.
    """

    score: float
    low: float | None
    high: float | None
    items: int
    left_out: int = 0
    parts: tuple[ScorePart, ...] = ()
    p_value: float | None = None
    moved: str = ""


def furthest_apart(parts: Sequence[ScorePart]) -> str:
    """Return the parts with the largest and the smallest value, in words; empty without values.

    Example:
        >>> furthest_apart([ScorePart("a", 0.1, 9), ScorePart("b", 0.3, 9), ScorePart("c", 0.2, 9)])
        'b 0.300, a 0.100'
    """
    valued = sorted((part.value, part.name) for part in parts if part.value is not None)
    ends = reversed(valued[:: max(1, len(valued) - 1)])
    return ", ".join(f"{name} {value:.3f}" for value, name in ends)

"""Score of one dimension, as measured from its records."""

from __future__ import annotations

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
    """

    score: float
    low: float | None
    high: float | None
    items: int
    left_out: int = 0
    parts: tuple[ScorePart, ...] = ()
    p_value: float | None = None

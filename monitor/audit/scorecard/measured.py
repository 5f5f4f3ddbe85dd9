"""Findings of a measure in the records of one dimension."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.errors import AuditError


class UnmeasurableError(AuditError):
    """The records are readable and say too little: of one variant only, or none is complete."""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One variant's, slice's or set's part in a score.

    Attributes:
        name: of it.
        value: its rate, mean or share; None where it has none.
        items: that the value is of.
    """

    name: str
    value: float | None
    items: int


@dataclass(frozen=True, slots=True)
class MeasuredScore:
    """A score and what it is of.

    Attributes:
        score: in the measure's range.
        low: lower end of the interval; None where the measure has none.
        high: its upper end.
        items: matched items, or records, that the score is of.
        left_out: items that lack a variant.
        parts: of the score, by name.
        p_value: of the measure's test; None where it has none.
    """

    score: float
    low: float | None
    high: float | None
    items: int
    left_out: int = 0
    parts: tuple[ScorePart, ...] = ()
    p_value: float | None = None

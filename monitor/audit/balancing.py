"""What balancing a training set can do at most, and what it costs.

Weights of target / share bring representation and co-occurrence to the target exactly, where there
are rows to weigh. The price is that fewer rows speak: Kish's effective sample size.

Example:
    >>> cells = (Cell("variety=formal", None, 0.62, 0.5), Cell("variety=chat", None, 0.38, 0.5))
    >>> balanced = balance(cells, rows=1000)
    >>> [round(one.weight, 3) for one in balanced.weights]
    [0.806, 1.316]
    >>> balanced.rows_needed, round(balanced.effective_rows), round(balanced.points_left, 9)
    (240, 942, 0.0)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

BALANCING_CAN = (
    "Balancing can bring the shares of the slices to their target, and make ready equally "
    "frequent in all of them: a judge then learns less from which slice a request is of.",
    "It can do so by weights (target / share) on the rows there are, or by more rows of the same "
    "quality; which of the two helps is a hypothesis to test on the matched pairs.",
)
BALANCING_CANNOT = (
    "It cannot correct labels that are wrong in one slice: it repeats them.",
    "It cannot teach wording that the judge does not understand: weights add no new text.",
    "It cannot move a threshold, nor what the evidence gate finds.",
)
_SLACK = 1e-12
"""Shares are quotients: 240 rows may arrive as 240.0000000001."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Rows of one slice with one label; ``ready`` is None where labels are not looked at.

    Attributes:
        slice: slice text.
        ready: the label.
        share: of all rows.
        target: share that it should have.
    """

    slice: str
    ready: bool | None
    share: float
    target: float


@dataclass(frozen=True, slots=True)
class Weight:
    """What one cell needs.

    Attributes:
        slice: slice text.
        ready: the label; None where labels are not looked at.
        weight: target / share; 0 leaves the rows out, None: there is nothing to weigh.
        rows_needed: further rows that would do without weights, when no row is taken away but
            those that the target has no place for.
    """

    slice: str
    ready: bool | None
    weight: float | None
    rows_needed: int


@dataclass(frozen=True, slots=True)
class Balancing:
    """What balancing a training set would do.

    Attributes:
        weights: by cell, in the order given.
        rows_needed: further rows in all.
        effective_rows: rows that the weighted ones are worth: (sum w)^2 / sum w^2.
        points_left: largest distance of a slice to its target that weights leave, in percentage
            points; above 0 only where the target asks for what has no rows.
    """

    weights: tuple[Weight, ...]
    rows_needed: int
    effective_rows: float
    points_left: float


def balance(cells: Sequence[Cell], rows: int) -> Balancing:
    """Weights and further rows that bring each cell to its target.

    Args:
        cells: shares and targets, each summing to 1.
        rows: in all.

    Source: Kish (1965), Survey Sampling; Kamiran and Calders (2012), Knowledge and Information
    Systems 33 (weights that make slice and label independent).
    """
    needed = _rows_needed(cells, rows)
    weights = tuple(
        Weight(one.slice, one.ready, one.target / one.share if one.share else None, more)
        for one, more in zip(cells, needed, strict=True)
    )
    there = [one for one in cells if one.share]
    reached = sum(one.target for one in there)
    squares = sum(one.target**2 / one.share for one in there)
    return Balancing(
        weights=weights,
        rows_needed=sum(needed),
        effective_rows=rows * reached**2 / squares if squares else 0.0,
        points_left=100 * _left(cells, reached or 1.0),
    )


def _rows_needed(cells: Sequence[Cell], rows: int) -> list[int]:
    """The smallest set that has the target and all the rows there are has max(share / target)."""
    size = rows * max((one.share / one.target for one in cells if one.target), default=0.0)
    return [
        max(0, ceil(size * one.target - rows * one.share - _SLACK * (rows + size))) for one in cells
    ]


def _left(cells: Sequence[Cell], reached: float) -> float:
    """Largest distance of a slice when what has rows takes the place of what has none."""
    distances: dict[str, float] = defaultdict(float)
    for one in cells:
        distances[one.slice] += (one.target / reached if one.share else 0.0) - one.target
    return max(map(abs, distances.values()), default=0.0)

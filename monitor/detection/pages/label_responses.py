"""Requested and received labels, and the arms whose labels are too few to bet on.

An unlabelled decision is bet on with its forecast. Without labels, a bet depends on the forecast
alone, whose own labels grow old. That is harmless while nearly all labels come, but a guess for a
slice that nobody labels any more. Such an arm is not bet on until its labels are back. Missing
labels say nothing about their values, so waiting is valid. From the next day on, such a slice is
left out of the complements of all others, which are compared with the labelled rest meanwhile.

Arms whose labels are not requested as often as the decisions say are not bet on either, because all
bets weigh a label by that probability. Under a correct sampler such an arm is skipped with a
probability below 1e-7; an e-value may grow by that much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.intervals import Floats, divide
from monitor.core.rates.gaps import Bools
from monitor.detection.pages.declared import of_references

ROUTES = len(REVIEWED_ROUTES)

ENOUGH = 0.8
"""Smallest response at which forecasts are fresh enough to bet. Counts halve in a week, so an arm
that loses all labels is bet on for two more days, one that loses a quarter forever."""

WHOLE = 0.95
"""Smallest response at which labels may be compared directly, without weights or forecasts: a route
that lacks more labels than the other would move the rate."""

SURE = 6.0
"""Standard deviations beyond :data:`ENOUGH` by which requests must be off to stop the bets."""

FEW = 10.0
"""Recent requested labels below which a route is not judged: two missing labels would stop it."""


@dataclass(frozen=True, slots=True)
class Responses:
    """Requested and received labels of each slice by route, shape (S, 2) each."""

    requested: npt.NDArray[np.number[Any]]
    received: npt.NDArray[np.number[Any]]

    def references(self, reference: int | None, left_out: Bools | None = None) -> Responses:
        """Return the labels of each slice's reference; see :func:`declared.of_references`."""
        labels = (self.requested, self.received)
        return Responses(*(of_references(counts, reference, left_out) for counts in labels))

    @property
    def enough(self) -> Bools:
        """Return True for slices (S,) with 80 % of labels, or few requests, on both routes."""
        share = divide(self.received, self.requested, empty=1)
        enough: Bools = np.all((share >= ENOUGH) | (self.requested < FEW), axis=1)
        return enough

    @property
    def whole(self) -> Bools:
        """Return True for slices where 95 % of each route's requested labels arrived, (S,)."""
        whole: Bools = np.all(self.received >= WHOLE * self.requested, axis=1)
        return whole


@dataclass(frozen=True, slots=True)
class Requests:
    """Requested labels of each slice by route, and the number that audit rates predict, (S, 2).

    Attributes:
        asked: requested labels or, if more, received labels.
        expected: sum over the decisions of their audit rates.
    """

    asked: Floats
    expected: Floats

    def references(self, reference: int | None, left_out: Bools | None = None) -> Requests:
        """Return the requests of each slice's reference; see :func:`declared.of_references`."""
        requests = (self.asked, self.expected)
        return Requests(*(of_references(counts, reference, left_out) for counts in requests))

    @property
    def as_stated(self) -> Bools:
        """Return True for slices whose requests, on both routes, fit their audit rates, (S,)."""
        room = SURE * np.sqrt(self.expected)
        few = self.asked < ENOUGH * self.expected - room
        many = self.asked > self.expected / ENOUGH + room
        mask: Bools = ~np.any(few | many, axis=1)
        return mask

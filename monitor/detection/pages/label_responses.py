"""Labels that are requested and come, and where too few are, or do, to bet on labels.

An unlabelled decision is bet on with its forecast. Where labels do not come, a bet therefore goes
by the forecast alone, whose labels grow old: as long as nearly all of them come that is harmless,
with a slice that nobody labels any more it is a guess. Such an arm is not bet on until its labels
are back; that they are missing says nothing of what they would have said, so waiting is valid.

The same holds where labels are not requested as often as the decisions say: all bets weigh a label
by that probability. Under a sampler that does as it says, such an arm is passed over with a
probability below 1e-7, by which an e-value may grow.
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
"""Response from which forecasts are fresh enough to bet with. Counts halve in a week, so an arm
without any label is bet on for two days more, one that lost a quarter goes on for ever."""

WHOLE = 0.95
"""Response from which labels may be compared by themselves, without weights or forecasts: a route
that lacks more of its labels than the other would move the rate."""

SURE = 6.0
"""Standard deviations by which requests must be off, beyond :data:`ENOUGH`, not to be bet on."""

FEW = 10.0
"""Labels requested lately below which a route is not judged: two missing ones would stop it."""


@dataclass(frozen=True, slots=True)
class Responses:
    """Labels requested and received in each slice by route, both of shape (S, 2)."""

    requested: npt.NDArray[np.number[Any]]
    received: npt.NDArray[np.number[Any]]

    def references(self, reference: int | None) -> Responses:
        """Those of what each slice is compared with: one slice, or its complement (None)."""
        return Responses(*(of_references(x, reference) for x in (self.requested, self.received)))

    @property
    def enough(self) -> Bools:
        """Slices to bet on, shape (S,): labels of every judged route come."""
        share = divide(self.received, self.requested, empty=1)
        enough: Bools = np.all((share >= ENOUGH) | (self.requested < FEW), axis=1)
        return enough

    @property
    def whole(self) -> Bools:
        """Slices of which nearly every label of every route is in, shape (S,)."""
        whole: Bools = np.all(self.received >= WHOLE * self.requested, axis=1)
        return whole


@dataclass(frozen=True, slots=True)
class Requests:
    """Labels asked for in each slice by route, and as many as the decisions say, both (S, 2).

    Attributes:
        asked: labels requested or, where more, labels that came.
        expected: decisions, each times its audit rate.
    """

    asked: Floats
    expected: Floats

    def references(self, reference: int | None) -> Requests:
        """Those of what each slice is compared with: one slice, or its complement (None)."""
        return Requests(*(of_references(x, reference) for x in (self.asked, self.expected)))

    @property
    def as_stated(self) -> Bools:
        """Slices to bet on, shape (S,): in no route are labels asked for far less or more often."""
        room = SURE * np.sqrt(self.expected)
        few = self.asked < ENOUGH * self.expected - room
        many = self.asked > self.expected / ENOUGH + room
        kept: Bools = ~np.any(few | many, axis=1)
        return kept

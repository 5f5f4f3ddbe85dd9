"""Response: which part of the requested labels come, and where too few do to bet on labels.

An unlabelled decision is bet on with its forecast. Where labels do not come, a bet therefore goes
by the forecast alone, whose labels grow old: as long as nearly all of them come that is harmless,
with a slice that nobody labels any more it is a guess. Such an arm is not bet on until its labels
are back; that they are missing says nothing of what they would have said, so waiting is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.intervals import Floats, divide
from monitor.core.rates.gaps import Bools

ROUTES = len(REVIEWED_ROUTES)

ENOUGH = 0.8
"""Response from which forecasts are fresh enough to bet with. Counts halve in a week, so an arm
without any label is bet on for two days more, one that lost a quarter goes on for ever."""

WHOLE = 0.95
"""Response from which labels may be compared by themselves, without weights or forecasts: a route
that lacks more of its labels than the other would move the rate."""

FEW = 10.0
"""Labels requested lately below which a route is not judged: two missing ones would stop it."""


@dataclass(frozen=True, slots=True)
class Responses:
    """Labels requested and received in each slice by route, both of shape (S, 2)."""

    requested: Floats | Int64s
    received: Floats | Int64s

    def references(self, reference: int | None) -> Responses:
        """Those of what each slice is compared with: one slice, or its complement (None)."""
        if reference is None:
            return Responses(*(x.sum(axis=0) - x for x in (self.requested, self.received)))
        shape = self.requested.shape
        named = (np.broadcast_to(x[reference], shape) for x in (self.requested, self.received))
        return Responses(*named)

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

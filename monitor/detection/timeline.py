"""When something was found: how often before any instant of the last weeks, and when last."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from monitor.core.time import Grain, pane_start
from monitor.detection.advisory import Tally


class Timeline(msgspec.Struct, array_like=True):
    """The cohorts that found something; changed in place.

    Attributes:
        hours: pane index of each of them, increasing.
        totals: how often it was found up to the end of each.
    """

    hours: list[int] = []
    totals: list[int] = []

    def note(self, hour: int) -> None:
        """Count it once more, with the cohort of an hour that is not before the last one."""
        total = self.totals[-1] + 1 if self.totals else 1
        if self.hours and self.hours[-1] == hour:
            self.totals[-1] = total
        else:
            self.hours.append(hour)
            self.totals.append(total)

    def before(self, hour: int) -> Tally | None:
        """What the cohorts of earlier hours found; None for nothing.

        Of hours that are folded away only the newest is known.
        """
        return self._tally(bisect_left(self.hours, hour))

    @property
    def now(self) -> Tally | None:
        """What all cohorts so far found; None for nothing."""
        return self._tally(len(self.hours))

    def fold(self, oldest: int) -> None:
        """Forget when it was found before an hour, but for the newest of them: it has the total."""
        folded = max(bisect_left(self.hours, oldest) - 1, 0)
        del self.hours[:folded], self.totals[:folded]

    def _tally(self, end: int) -> Tally | None:
        if not end:
            return None
        return Tally(self.totals[end - 1], pane_start(self.hours[end - 1], Grain.HOUR))

"""Clusters of decisions, day by day: the size that bets are divided by, and repetition.

A bet is divided by the decisions of the largest unit of its UTC day, over all shards and use cases.
A unit may be in a slice and in its reference, and no bet spans two days. The size depends on the
requests alone, not on routes and labels, so the bet may depend on it. A unit has another hash each
day, so units of different days count as different units.

Units are kept in memory; only the largest size of a day is stored. After a restart, counting starts
again for that day, and the new largest size is added to the stored one. So the stored size stays an
upper bound: n_u is at most the sum of the largest sizes of all runs of the evaluator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor.core.counts.clusters import DayClusters, UnitSizes
from monitor.core.time import DAY, Grain, pane_start
from monitor.store.deltas import StoredDelta

MAX_UNITS = 4_000_000
"""Limit on units in memory (64 MB); beyond it, all days begin anew, as after a restart."""
RECENT_DAYS = 2
"""Days with compared decisions that repetition is judged by; it ends a day or two after its
cause."""


@dataclass(slots=True)
class ClusterDays:
    """Cluster facts (unit sizes, repetition) by UTC day since 1970; equal to the stored state.

    Attributes:
        days: facts of the days that are kept.
    """

    days: dict[int, DayClusters] = field(default_factory=dict)
    _counted: dict[int, UnitSizes] = field(default_factory=dict)

    def take(self, deltas: Sequence[StoredDelta]) -> dict[int, DayClusters]:
        """Add the clusters of deltas to their days; return what was added, by day since 1970."""
        added: dict[int, DayClusters] = {}
        payloads = [delta.payload for delta in deltas]
        for repetition in (repetition for payload in payloads for repetition in payload.repetition):
            before = added.get(repetition.day, DayClusters())
            added[repetition.day] = before + DayClusters.from_repetition(repetition)
        parts = [payload.sizes for payload in payloads if payload.sizes is not None]
        if parts:
            for day, sizes in UnitSizes.merged(parts).by_day().items():
                added[day] = added.get(day, DayClusters()) + self._count(day, sizes)
        for day, day_facts in added.items():
            self.days[day] = self.days.get(day, DayClusters()) + day_facts
        return added

    def largest_unit(self, hour: int) -> int:
        """Return an upper bound on the decisions per unit on the day of an hour, at least 1.

        Args:
            hour: pane index.
        """
        day = pane_start(hour, Grain.HOUR) // DAY
        return max(1, self.days.get(day, DayClusters()).largest)

    def largest_before(self, day: int) -> int:
        """Return the largest :meth:`largest_unit` of the seven days before ``day``."""
        week_before = (self.days.get(earlier, DayClusters()) for earlier in range(day - 7, day))
        return max(1, *(facts.largest for facts in week_before))

    def repeats(self, cluster_size: int) -> bool:
        """Return True when clusters seem larger than ``cluster_size``, far more than by chance."""
        return self.recent.repeats(cluster_size)

    @property
    def newest_named(self) -> int | None:
        """Return the newest day (since 1970) with decisions that named their unit, or None."""
        return max((day for day, facts in self.days.items() if facts.named), default=None)

    @property
    def recent(self) -> DayClusters:
        """Return the summed facts of the two newest days on which decisions were compared."""
        days = sorted(day for day, facts in self.days.items() if facts.tested)[-RECENT_DAYS:]
        return sum((self.days[day] for day in days), DayClusters())

    def forget(self, first: int) -> None:
        """Drop all days before the day of the hour ``first`` (pane index)."""
        oldest = pane_start(first, Grain.HOUR) // DAY
        self.days = {day: facts for day, facts in self.days.items() if day >= oldest}
        self._counted = {day: units for day, units in self._counted.items() if day >= oldest}

    def _count(self, day: int, sizes: UnitSizes) -> DayClusters:
        """Add unit sizes to a day; return their decisions and the growth of its largest unit."""
        if sum(len(units.keys) for units in self._counted.values()) > MAX_UNITS:
            self._counted.clear()
        before = self._counted.get(day)
        now = sizes if before is None else UnitSizes.merged([before, sizes])
        self._counted[day] = now
        grown = int(now.n.max()) - (0 if before is None else int(before.n.max()))
        return DayClusters(named=int(sizes.n.sum()), largest=grown)

"""Clusters of decisions, day by day: the size that bets are divided by, and repetition.

A bet is divided by the decisions of the largest unit of its UTC day, over all shards and use cases:
a unit may be in a slice and in its reference, and no bet spans two days. It is a fact of the
requests that were counted, without routes and labels, so the bet may depend on it. What units do
on other days is not known (a unit has another hash each day): they are taken to be others.

Units are in memory only, and only the largest number of a day is stored. After a restart the
sizes of that day begin anew and their largest is added to the one that is stored: n_u is at most
the sum over the runs of the evaluator of the largest of each, so the bound stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor.core.counts.clusters import DayClusters, UnitSizes
from monitor.core.time import DAY, Grain, pane_start
from monitor.ports import StoredDelta

MAX_UNITS = 4_000_000
"""Units in memory, 64 MB: beyond, all days begin anew as after a restart."""
RECENT_DAYS = 2
"""Days with compared decisions that repetition is judged by: it ends a day or two after its
cause."""


@dataclass(slots=True)
class ClusterDays:
    """Facts on clusters, by day since 1970; always equal to what the store holds.

    Attributes:
        days: those that are kept.
    """

    days: dict[int, DayClusters] = field(default_factory=dict)
    _counted: dict[int, UnitSizes] = field(default_factory=dict)

    def take(self, deltas: Sequence[StoredDelta]) -> dict[int, DayClusters]:
        """Take in deltas that are folded now; returns what they add to each day."""
        added: dict[int, DayClusters] = {}
        for found in (found for delta in deltas for found in delta.repetition):
            added[found.day] = added.get(found.day, DayClusters()) + DayClusters.from_repetition(
                found
            )
        parts = [delta.sizes for delta in deltas if delta.sizes is not None]
        if parts:
            for day, sizes in UnitSizes.merged(parts).by_day().items():
                added[day] = added.get(day, DayClusters()) + self._count(day, sizes)
        for day, more in added.items():
            self.days[day] = self.days.get(day, DayClusters()) + more
        return added

    def largest_unit(self, hour: int) -> int:
        """Upper bound on the decisions of one unit on the day of an hour, at least 1.

        Args:
            hour: pane index.
        """
        day = pane_start(hour, Grain.HOUR) // DAY
        return max(1, self.days.get(day, DayClusters()).largest)

    def largest_before(self, day: int) -> int:
        """The same of the largest of the seven days before a day, at least 1."""
        known = (self.days.get(one, DayClusters()) for one in range(day - 7, day))
        return max(1, *(one.largest for one in known))

    def repeats(self, cluster_size: int) -> bool:
        """Return True when decisions without a unit are repeated by far more than chance."""
        return self.recent.repeats(cluster_size)

    @property
    def newest_named(self) -> int | None:
        """The newest day with decisions that named their unit."""
        return max((day for day, known in self.days.items() if known.named), default=None)

    @property
    def recent(self) -> DayClusters:
        """The last days on which decisions were compared, together."""
        days = sorted(day for day, known in self.days.items() if known.tested)[-RECENT_DAYS:]
        return sum((self.days[day] for day in days), DayClusters())

    def forget(self, first: int) -> None:
        """Forget the days before that of an hour (pane index)."""
        oldest = pane_start(first, Grain.HOUR) // DAY
        self.days = {day: known for day, known in self.days.items() if day >= oldest}
        self._counted = {day: units for day, units in self._counted.items() if day >= oldest}

    def _count(self, day: int, sizes: UnitSizes) -> DayClusters:
        """Add to the units of a day; returns the decisions, and by how much the largest grew."""
        if sum(len(known.keys) for known in self._counted.values()) > MAX_UNITS:
            self._counted.clear()
        before = self._counted.get(day)
        now = sizes if before is None else UnitSizes.merged([before, sizes])
        self._counted[day] = now
        grown = int(now.n.max()) - (0 if before is None else int(before.n.max()))
        return DayClusters(named=int(sizes.n.sum()), largest=grown)

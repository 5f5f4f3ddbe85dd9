"""Clusters of decisions, day by day: what bets and counts are divided by, and repetition.

A bet is divided by the decisions of the largest unit of its UTC day, over all shards and use cases.
A unit may be in a slice and in its reference, and no bet spans two days. The size depends on the
requests alone, not on routes and labels, so the bet may depend on it. A unit has another hash each
day, so units of different days count as different units.

Counts of published tables are divided by the design effect of the units of their use case:
:mod:`monitor.core.tables.design_effect`.

Units are kept in memory; only sums over all units of a day and use case are stored. After a
restart, counting starts again for that day, and the new sums are added to the stored ones. So the
largest size stays an upper bound: n_u is at most the sum of the largest sizes of all runs of the
evaluator. The design effect of that day may become too small: a unit that decides before and after
the restart counts as two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor.core.counts.clusters import DayClusters, UnitGroup, UnitSizes
from monitor.core.time import DAY, Grain, pane_start
from monitor.store.deltas import StoredDelta

MAX_UNITS = 4_000_000
"""Limit on units in memory (96 MB, 24 bytes each); beyond it, all days begin anew, as after a
restart."""
RECENT_DAYS = 2
"""Days with compared decisions that repetition is judged by; it ends a day or two after its
cause."""


@dataclass(slots=True)
class ClusterDays:
    """Cluster facts (unit sizes, repetition) by day and population; equal to the stored state.

    Attributes:
        groups: facts of the days that are kept. Repetition, of decisions without a unit, is in
            population 0.
    """

    groups: dict[UnitGroup, DayClusters] = field(default_factory=dict)
    _counted: dict[UnitGroup, UnitSizes] = field(default_factory=dict)

    def take(self, deltas: Sequence[StoredDelta]) -> dict[UnitGroup, DayClusters]:
        """Add the clusters of deltas to their groups; return what was added to each."""
        added: dict[UnitGroup, DayClusters] = {}
        payloads = [delta.payload for delta in deltas]
        for repetition in (repetition for payload in payloads for repetition in payload.repetition):
            group = UnitGroup(repetition.day, 0)
            before = added.get(group, DayClusters())
            added[group] = before + DayClusters.from_repetition(repetition)
        parts = [payload.sizes for payload in payloads if payload.sizes is not None]
        if parts:
            for group, sizes in UnitSizes.merged(parts).by_group().items():
                added[group] = added.get(group, DayClusters()) + self._count(group, sizes)
        for group, facts in added.items():
            self.groups[group] = self.groups.get(group, DayClusters()) + facts
        return added

    def largest_unit(self, hour: int) -> int:
        """Return an upper bound on the decisions per unit on the day of an hour, at least 1.

        Args:
            hour: pane index.
        """
        day = pane_start(hour, Grain.HOUR) // DAY
        return self.largest_in(range(day, day + 1))

    def largest_before(self, day: int) -> int:
        """Return the largest :meth:`largest_unit` of the seven days before ``day``."""
        return self.largest_in(range(day - 7, day))

    def largest_in(self, days: range) -> int:
        """Return the largest unit of any use case on some days, at least 1: no bet spans two."""
        sizes = (facts.largest for group, facts in self.groups.items() if group.day in days)
        return max(1, max(sizes, default=1))

    def repeats(self, cluster_size: int) -> bool:
        """Return True when clusters seem larger than ``cluster_size``, far more than by chance."""
        return self.recent.repeats(cluster_size)

    @property
    def newest_named(self) -> int | None:
        """Return the newest day (since 1970) with decisions that named their unit, or None."""
        return max((group.day for group, facts in self.groups.items() if facts.named), default=None)

    @property
    def recent(self) -> DayClusters:
        """Return the summed facts of the two newest days on which decisions were compared."""
        tested = sorted(group for group, facts in self.groups.items() if facts.tested)
        return sum((self.groups[group] for group in tested[-RECENT_DAYS:]), DayClusters())

    def forget(self, first: int) -> None:
        """Drop all days before the day of the hour ``first`` (pane index)."""
        oldest = pane_start(first, Grain.HOUR) // DAY
        self.groups = {group: facts for group, facts in self.groups.items() if group.day >= oldest}
        self._counted = {
            group: units for group, units in self._counted.items() if group.day >= oldest
        }

    def _count(self, group: UnitGroup, sizes: UnitSizes) -> DayClusters:
        """Add unit sizes to a group; return the growth of its sums and of its largest unit."""
        if sum(units.table.shape[1] for units in self._counted.values()) > MAX_UNITS:
            self._counted.clear()
        before = self._counted.get(group)
        if before is None:
            self._counted[group] = sizes
            return sizes.sums
        self._counted[group] = UnitSizes.merged([before, sizes])
        return self._counted[group].sums - before.sums

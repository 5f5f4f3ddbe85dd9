"""From released blocks to the Releases of closed weeks; looked at once a day of event time.

A week is first released in the first cycle after its last hour is closed to decisions: then every
block that ends in it is known. Labels come later. While they may, the week is looked at once a day,
and is released anew (a new revision) where the bytes have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import merge
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.families import SliceFamily
from monitor.core.privacy.linear_audit import LpAudit
from monitor.core.publish.contract_tables import BlockCounts, Builder
from monitor.core.publish.release import (
    AFTER_HORIZON,
    Release,
    ReleasedIncident,
    Revision,
    encode,
    has_decisions,
    kept_tables,
    released_findings,
)
from monitor.core.publish.snapshot import ContractTable, GroupTable, Snapshot, WindowTable
from monitor.core.time import UTC_ZONE, WEEK, Grain, IsoWeek, WindowKind, pane_of
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.week_rests import WeekRest, rest_pane
from monitor.evaluate.label_needs import with_label_needs
from monitor.evaluate.publish.publisher import Publisher, TableInputs
from monitor.evaluate.publish.week_audit import WeekAudits
from monitor.store.evaluator.release_blocks import ClosedPanes

log = logging.getLogger("slicewatch.evaluate")

_Table = TypeVar("_Table", GroupTable, WindowTable)


@dataclass(frozen=True, slots=True)
class WeekSources:
    """Everything that Releases are made of.

    Attributes:
        closed: counts of closed panes.
        release: the blocks.
        index: what all cells mean.
        snapshot: the newest one.
        incidents: those that were open in a week, as the Snapshots showed them.
        newest: the newest revision of a week; None before the first.
    """

    closed: ClosedPanes
    release: ReleaseBlocks
    index: CellIndex
    snapshot: Snapshot
    incidents: Callable[[IsoWeek], tuple[ReleasedIncident, ...]]
    newest: Callable[[IsoWeek], Revision | None]

    def rest(self, week: IsoWeek) -> WeekRest:
        """What was held back of a week, and is in its Release besides the blocks."""
        counts = self.closed.rest(rest_pane(week))
        if not len(counts.keys):
            return WeekRest()
        before = shown_before(self.newest(week))
        return WeekRest.of(self.release, self.index, counts, week, before)


def shown_before(stored: Revision | None) -> frozenset[str]:
    """Names of the families whose tables of a week had its rest before."""
    if stored is None:
        return frozenset()
    if stored.rests is not None:
        return stored.rests
    return frozenset(  # stored before that was kept: any of them
        f"{table.contract}/{group.group_by}"
        for table in stored.release.contracts
        for window in table.windows
        for group in window.groups
    )


@dataclass(slots=True)
class Weeks:
    """Makes Releases; keeps the tables of the weeks that may still change.

    Attributes:
        publisher: of the Snapshots, whose sums and settings are used.
        horizon: microseconds that a label is waited for.
        timezone: in which weeks begin.
    """

    publisher: Publisher
    horizon: int
    timezone: str = UTC_ZONE
    _looked: tuple[int, IsoWeek] | None = None
    _audits: WeekAudits = field(default_factory=WeekAudits)
    _tables: dict[tuple[str, str, str], tuple[TableInputs, GroupTable | WindowTable]] = field(
        default_factory=dict
    )

    def due(self, release: ReleaseBlocks) -> bool:
        """Return True once a day of event time, when a week is over, and at first."""
        return release.decisions is not None and self._now(release.decisions) != self._looked

    def _now(self, at: int) -> tuple[int, IsoWeek]:
        return pane_of(at, Grain.DAY), IsoWeek.of(at, self.timezone)

    def revisions(self, sources: WeekSources) -> list[Revision]:
        """Releases whose bytes have changed since they were last stored, the oldest week first."""
        release = sources.release
        assert release.decisions is not None, "called when due"  # noqa: S101
        weeks = list(open_weeks(release.decisions, self.horizon, self.timezone))
        names = {week.name for week in weeks}
        self._tables = {key: made for key, made in self._tables.items() if key[0] in names}
        self._audits.forget_but(names)
        found = [self._revision(week, sources, release.decisions) for week in weeks]
        self._looked = self._now(release.decisions)
        return [one for one in found if one is not None]

    def _revision(self, week: IsoWeek, sources: WeekSources, as_of: int) -> Revision | None:
        stored = sources.newest(week)
        before = stored.release if stored else None
        made = self.release(week, sources, before)
        if made is None:
            return None
        same = replace(made, audit=before.audit if before else None)
        if stored is not None and encode(same) == stored.body:
            return None
        rest = sources.rest(week)
        made = replace(made, audit=self._audit(week, sources, rest))
        number = stored.number + 1 if stored else 1
        shown = shown_before(stored) | rest.families
        return Revision(week.name, number, as_of, encode(made), shown)

    def _audit(self, week: IsoWeek, sources: WeekSources, rest: WeekRest) -> LpAudit:
        found = self._audits.of(sources.release, sources.closed, sources.index, rest, week)
        if found is LpAudit.BROKEN:
            log.error("a small count of a week is known too closely", extra={"week": week.name})
        return found

    def release(
        self, week: IsoWeek, sources: WeekSources, before: Release | None
    ) -> Release | None:
        """The Release of a week; None where nothing of it was ever released.

        Args:
            week: which; closed.
            sources: what it is made of.
            before: the revision before.
        """
        rest = sources.rest(week)
        made = [self._contract(week, sources, rest, one) for one, _ in self.publisher.contracts]
        tables = kept_tables(before, made)
        if not has_decisions(tables):
            return None
        known = before.findings if before else ()
        findings = released_findings(week, sources.snapshot, known)
        incidents = sources.incidents(week)
        return Release(week.name, week.start, week.end, tables, incidents, findings)

    def _contract(
        self, week: IsoWeek, sources: WeekSources, rest: WeekRest, contract: Contract
    ) -> ContractTable:
        eras = self.publisher.eras
        builder = Builder(contract, eras.newest, eras.listed_since, of_week=True)
        maker = _WeekMaker(self, week, sources, rest, builder)
        groups = [maker.group(group) for group in contract.group_bys]
        table = builder.table([maker.window(groups)])
        return replace(table, window=week.name, max_age=None)

    def kept(
        self, key: tuple[str, str, str], inputs: TableInputs, make: Callable[[], _Table]
    ) -> _Table:
        """The table that was made of the same blocks, or a new one."""
        known = self._tables.get(key)
        if known is None or known[0] != inputs:
            known = inputs, make()
            self._tables[key] = known
        return cast(_Table, known[1])


def open_weeks(decisions: int, horizon: int, zone: str = UTC_ZONE) -> Iterator[IsoWeek]:
    """Weeks that are over and may still be released anew, the oldest first.

    Args:
        decisions: event time up to which panes are closed to decisions.
        horizon: microseconds that a label is waited for.
        zone: name of the time zone in which weeks begin.

    Example:
        >>> now = IsoWeek.named("2026-W47").end + 1
        >>> [week.name for week in open_weeks(now, WEEK)]
        ['2026-W45', '2026-W46', '2026-W47']
    """
    week = IsoWeek.of(decisions - horizon - AFTER_HORIZON, zone)
    while week.end <= decisions:
        yield week
        week = week.after


@dataclass(frozen=True, slots=True)
class _WeekMaker:
    """Makes the tables of one contract and week, or takes those that are still right."""

    weeks: Weeks
    week: IsoWeek
    sources: WeekSources
    rest: WeekRest
    builder: Builder

    def group(self, group: GroupBy) -> GroupTable:
        state, inputs = self._inputs(group.attributes)

        def make() -> GroupTable:
            counts = self._counts(inputs)
            pooled = self.builder.pooled(group, counts, state.pooling, state.label_pooling)
            table = self.builder.group(pooled, state.left_out_share)
            return with_label_needs(self.builder.contract, group, table)

        return self.weeks.kept(self._key(group.name), inputs, make)

    def window(self, groups: list[GroupTable]) -> WindowTable:
        _, inputs = self._inputs(())

        def make() -> WindowTable:
            return self.builder.window(self.week.name, self._counts(inputs), ())

        return replace(self.weeks.kept(self._key(""), inputs, make), groups=tuple(groups))

    def _key(self, group_by: str) -> tuple[str, str, str]:
        return self.week.name, self.builder.contract.name, group_by

    def _inputs(self, attributes: tuple[str, ...]) -> tuple[FamilyState, TableInputs]:
        family = SliceFamily(self.builder.contract.name, attributes).name
        state = self.sources.release.families[family]
        inputs = self.weeks.publisher.ending_in(state, self.week.start, self.week.end)
        return state, replace(inputs, rest=self.rest.fits(family, inputs.labelled))

    def _counts(self, inputs: TableInputs) -> BlockCounts:
        kind = WindowKind(self.week.name, WEEK, Grain.HOUR)
        closed, index = self.sources.closed, self.sources.index
        counts = self.weeks.publisher.counts(closed, index, kind, inputs)
        if not inputs.rest:
            return counts
        return replace(counts, labelled=merge([counts.labelled, self.rest.counts]))

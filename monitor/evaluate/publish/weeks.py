"""Makes the Releases of closed weeks from their published tables.

A week is first released once its table of decisions is published, anew with its labels, and once
more with their final edition: whenever the bytes have changed. Incidents and findings of the week
are looked at once a day of event time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.coding import Coding
from monitor.core.publish.calendar_contract import ContractInTables, TableBasis
from monitor.core.publish.calendar_rates import UseCaseTables
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
from monitor.core.tables.reader import Table
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.time import UTC_ZONE, Grain, IsoWeek, pane_of
from monitor.evaluate.label_needs import with_label_needs


@dataclass(frozen=True, slots=True)
class WeekSources:
    """Inputs of Releases: week tables, the newest Snapshot, incidents and stored revisions.

    Attributes:
        decisions: end of the newest hour with a table of decisions (microseconds).
        tables: published tables of weeks, by the name of the contract.
        snapshot: the newest one.
        incidents: those that were open in a week, as the Snapshots showed them.
        newest: the newest revision of a week; None before the first.
    """

    decisions: int
    tables: Mapping[str, UseCaseTables]
    snapshot: Snapshot
    incidents: Callable[[IsoWeek], tuple[ReleasedIncident, ...]]
    newest: Callable[[IsoWeek], Revision | None]


@dataclass(slots=True)
class Weeks:
    """Maker of the Releases of closed weeks; keeps tables that did not change.

    Attributes:
        contracts: of all use cases.
        coding: of now.
        horizon: microseconds that a label is waited for.
        timezone: in which weeks begin.
    """

    contracts: Sequence[Contract]
    coding: Coding
    horizon: int
    timezone: str = UTC_ZONE
    _looked: tuple[int, int] | None = None
    _made: dict[tuple[str, str, str], tuple[list[Table], GroupTable]] = field(default_factory=dict)

    def due(self, decisions: int | None, week_tables: int) -> bool:
        """Return True once a day of event time, and when the number of week tables changed.

        Args:
            decisions: end of the newest hour with a table of decisions; None before any.
            week_tables: number of published tables of weeks.
        """
        return (
            decisions is not None and (pane_of(decisions, Grain.DAY), week_tables) != self._looked
        )

    def looked(self, decisions: int, week_tables: int) -> None:
        """Record that the weeks were checked; :meth:`due` is then False for these arguments."""
        self._looked = pane_of(decisions, Grain.DAY), week_tables

    def revisions(self, sources: WeekSources) -> list[Revision]:
        """Return new Revisions of Releases whose bytes changed since stored, oldest week first."""
        weeks = open_weeks(sources.decisions, self.horizon, self.timezone)
        names = {week.name for week in weeks}
        self._made = {place: kept for place, kept in self._made.items() if place[0] in names}
        revisions = [self._revision(week, sources) for week in weeks]
        return [revision for revision in revisions if revision is not None]

    def _revision(self, week: IsoWeek, sources: WeekSources) -> Revision | None:
        """Return a week's next revision; None if it would have the bytes of the newest."""
        stored = sources.newest(week)
        release = self.release(week, sources, stored.release if stored else None)
        if release is None:
            return None
        body = encode(release)
        if stored is not None and body == stored.body:
            return None
        return Revision(week.name, stored.number + 1 if stored else 1, sources.decisions, body)

    def release(
        self, week: IsoWeek, sources: WeekSources, before: Release | None
    ) -> Release | None:
        """Return the Release of a week; None if no decisions of it are published.

        Args:
            week: which; closed.
            sources: what it is made of.
            before: the revision before.
        """
        made = [self._contract(week, sources, contract) for contract in self.contracts]
        tables = kept_tables(before, made)
        if not has_decisions(tables):
            return None
        findings = released_findings(week, sources.snapshot, before.findings if before else ())
        incidents = sources.incidents(week)
        return Release(week.name, week.start, week.end, tables, incidents, findings)

    def _contract(self, week: IsoWeek, sources: WeekSources, contract: Contract) -> ContractTable:
        seen = ContractInTables(contract, sources.tables[contract.name], self.coding)
        span = _span_of(week, seen.tables)
        total = self._group(week, seen, span, None)
        groups = [self._group(week, seen, span, group) for group in contract.group_bys]
        (row,) = total.rows
        window = WindowTable(
            week.name, row, tuple(groups), decisions=total.decisions, labelled=total.labelled
        )
        return replace(seen.table([window]), window=week.name, max_age=None)

    def _group(
        self, week: IsoWeek, seen: ContractInTables, span: Span | None, group: GroupBy | None
    ) -> GroupTable:
        """Return a group-by's table of a week; reuse it while its source tables are the same."""
        if span is None:
            no_spans = tuple((metric, ()) for metric in seen.contract.metrics)
            return seen.group(TableBasis(group, ("",) if group is None else (), no_spans))
        tables = [published[span] for published in seen.tables.tables.values() if span in published]
        place = week.name, seen.contract.name, "" if group is None else group.name
        kept = self._made.get(place)
        if kept is None or [*map(id, kept[0])] != [*map(id, tables)]:
            table = seen.group(seen.basis_of_week(group, span))
            if group is not None:
                table = with_label_needs(seen.contract, group, table)
            kept = self._made[place] = tables, table
        return kept[1]


def _span_of(week: IsoWeek, tables: UseCaseTables) -> Span | None:
    """Return the span of a week's published tables; None if none is published."""
    spans = {span for published in tables.tables.values() for span in published}
    return next(
        (span for span in spans if span.kind is SpanKind.WEEK and span.name == week.name), None
    )


def open_weeks(decisions: int, horizon: int, zone: str = UTC_ZONE) -> list[IsoWeek]:
    """Return the weeks that are over and may still be released anew, the oldest first.

    Args:
        decisions: event time up to which tables of decisions are published.
        horizon: microseconds that a label is waited for.
        zone: name of the time zone in which weeks begin.

    Example:
        >>> from monitor.core.time import WEEK
        >>> now = IsoWeek.named("2026-W47").end + 1
        >>> [week.name for week in open_weeks(now, WEEK)]
        ['2026-W45', '2026-W46', '2026-W47']
    """
    weeks, week = [], IsoWeek.containing(decisions - horizon - AFTER_HORIZON, zone)
    while week.end <= decisions:
        weeks.append(week)
        week = week.after
    return weeks

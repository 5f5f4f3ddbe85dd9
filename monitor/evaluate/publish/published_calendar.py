"""The published calendar tables that Snapshots and Releases are made of, kept in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.tables.reader import Measure, Table
from monitor.core.tables.spans import Edition, Span, SpanKind
from monitor.core.time import DAY, HOUR, WEEK
from monitor.evaluate.tables.calendar import Calendar
from monitor.store.evaluator.calendar_tables import CalendarChange, read_tables
from monitor.store.evaluator.store import EvaluatorStore

_WINDOWS_KEEP: Mapping[SpanKind, int] = {
    SpanKind.HOUR: 25 * HOUR,
    SpanKind.DAY: 29 * DAY,
    SpanKind.WEEK: 5 * WEEK,
    SpanKind.FOUR_WEEKS: 8 * WEEK,
}
"""How long before the newest labels the tables end that some window may be made of."""


@dataclass(slots=True)
class PublishedCalendar:
    """Published tables of all use cases; equal to what the store holds after every commit.

    Attributes:
        windows: first editions that windows are made of, by the name of the contract.
        weeks: tables of weeks that may still be released anew, final editions where there are any.
        decisions: end of the newest hour with a table of decisions (microseconds); None before any.
        labels: end of the newest hour with label tables; None before any.
    """

    windows: dict[str, UseCaseTables] = field(default_factory=dict)
    weeks: dict[str, UseCaseTables] = field(default_factory=dict)
    decisions: int | None = None
    labels: int | None = None

    @classmethod
    def load(
        cls, store: EvaluatorStore, calendars: Sequence[Calendar], since: int, weeks_since: int
    ) -> PublishedCalendar:
        """Return a calendar of the tables stored since two instants, for all use cases.

        Args:
            store: of the evaluator.
            calendars: of all use cases.
            since: instant from which on tables of windows are read (microseconds).
            weeks_since: instant from which on those of weeks are.
        """
        made = cls()
        for calendar in calendars:
            name = calendar.use_case
            made.windows[name], made.weeks[name] = UseCaseTables(), UseCaseTables()
            made._add(calendar, store.read(read_tables, name, since))
            made._add_weeks(calendar, store.read(_read_weeks, name, weeks_since))
        made.use_parts(calendars)
        return made

    def add(self, changes: Iterable[CalendarChange], calendars: Sequence[Calendar]) -> None:
        """Add newly stored tables, and move the ends of decisions and labels forward."""
        calendar_of = {calendar.use_case: calendar for calendar in calendars}
        for change in changes:
            self._add(calendar_of[change.use_case], [table for table, _ in change.tables])
        self.use_parts(calendars)

    def use_parts(self, calendars: Sequence[Calendar]) -> None:
        """Set the columns in which tables are read to those of their use case now."""
        for calendar in calendars:
            for tables in (self.windows, self.weeks):
                tables[calendar.use_case].use_parts(calendar.parts)

    def forget(self, weeks_before: int) -> None:
        """Drop tables too old for any window, and week tables before ``weeks_before``."""
        newest = self.labels if self.labels is not None else self.decisions
        if newest is None:
            return
        windows = {kind: newest - kept for kind, kept in _WINDOWS_KEEP.items()}
        for tables in self.windows.values():
            tables.forget(windows)
        for tables in self.weeks.values():
            tables.forget(dict.fromkeys(SpanKind, weeks_before))

    @property
    def week_tables(self) -> int:
        """Return the number of published week tables in memory."""
        tables = (published for case in self.weeks.values() for published in case.tables.values())
        return sum(len(published) for published in tables)

    def _add(self, calendar: Calendar, tables: Sequence[Table]) -> None:
        """Add new tables to the windows and weeks, and move the ends of what is published."""
        first = [table for table in tables if table.edition is Edition.FIRST]
        self.windows[calendar.use_case].add(_with_population(calendar, first))
        self._add_weeks(calendar, [table for table in tables if table.span.kind is SpanKind.WEEK])
        for table in first:
            if table.span.kind is SpanKind.HOUR:
                self._move(table.measure, table.span)

    def _add_weeks(self, calendar: Calendar, tables: Iterable[Table]) -> None:
        final_last = sorted(tables, key=lambda table: table.edition is Edition.FINAL)
        self.weeks[calendar.use_case].add(_with_population(calendar, final_last))

    def _move(self, measure: Measure, span: Span) -> None:
        if measure is Measure.DECISIONS:
            self.decisions = max(span.end, self.decisions or span.end)
        else:
            self.labels = max(span.end, self.labels or span.end)


def _with_population(calendar: Calendar, tables: Iterable[Table]) -> list[Table]:
    """Return the tables whose population is the one that the use case has now."""
    return [table for table in tables if calendar.has_population(table.span)]


def _read_weeks(connection: sa.Connection, use_case: str, since: int) -> list[Table]:
    """Return the stored tables of weeks that begin at ``since`` or later."""
    return read_tables(connection, use_case, since, kinds=(SpanKind.WEEK,))

"""Makes the calendar tables of one use case, each once, when its span has closed.

A table depends on what was counted in its span, on tables within it, and on the settings that held
when it began; never on when it is made. So files and a live feed make the same tables. For that
reason a decision table is bound to decision tables alone, and a first edition to no final one:
which of the others are there already is a matter of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

from monitor.core.contract import Contract
from monitor.core.counts.cells import Counts, Int64s
from monitor.core.counts.clusters import DayClusters, population_id
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import CellIndex
from monitor.core.tables.closed_span import ClosedSpan
from monitor.core.tables.design_effect import LIKENESS_DAYS, published_effect
from monitor.core.tables.reader import Table
from monitor.core.tables.row_counts import RowCounter
from monitor.core.tables.settings import Part, TableSettings, parts_of_routes
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.time import DAY, Grain
from monitor.evaluate.tables.due import Eras, Progress, Turn, due
from monitor.store.evaluator.calendar_tables import (
    CalendarChange,
    Era,
    Made,
    Stage,
    read_eras,
    read_first_labels,
    read_made,
    read_tables,
)
from monitor.store.evaluator.cluster_days import read_cluster_days
from monitor.store.evaluator.span_sums import first_day, span_sums
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.upkeep.retention_guard import HOURS_KEPT_AFTER_HORIZON

SPANS_AT_ONCE = 48
"""Spans of one transaction at most: catching up stays bounded, and two days of hours fit in."""

BEGINNING = -(1 << 62)

Sums = Callable[[Span], Counts]
Counted = tuple[Counts, CellIndex]
"""Counts of a span by cell, and what all cells mean."""


def progress_of(
    store: EvaluatorStore, watermark: int, labels_to: int, horizon: int, aggregates: int
) -> Progress | None:
    """Return the Progress of counting up to a watermark; None before anything was counted.

    Args:
        store: of the evaluator.
        watermark: event time that decisions are complete to.
        labels_to: frontier up to which label tables are made.
        horizon: how long a label is waited for.
        aggregates: how long counts of days are kept.
    """
    first = store.read(first_day)
    kept = {Grain.HOUR: horizon + HOURS_KEPT_AFTER_HORIZON, Grain.DAY: aggregates}
    kept_from = {grain: watermark - period for grain, period in kept.items()}
    return None if first is None else Progress(watermark, labels_to, horizon, first, kept_from)


def sums_of(store: EvaluatorStore) -> Sums:
    """Return a cached function that returns the counts of a span by cell."""
    return cache(lambda span: store.read(span_sums, span))


class Calendar:
    """Maker of one use case's calendar tables; store its changes before the next step.

    Attributes:
        use_case: its name.
    """

    def __init__(
        self,
        store: EvaluatorStore,
        contract: Contract,
        coding: Coding,
        offset: int = 0,
        since: int = BEGINNING,
    ) -> None:
        """Create a calendar that continues after the stored tables of the contract's use case.

        Args:
            store: of the evaluator.
            contract: of the use case.
            coding: of now.
            offset: hours that the zone of days and weeks is ahead of UTC, all year round.
            since: where nothing is stored yet, the first instant of the spans that get tables.
                What was published before, in another form or under another name, must not be
                published again.
        """
        self._store = store
        self._since = since
        self.use_case = contract.name
        self._wanted = TableSettings.from_contract(contract, coding, offset, bands=True)
        self._rates = coding.audit_rates
        self._eras = store.read(read_eras, contract.name)
        self._made = store.read(read_made, contract.name)
        self._looked: set[Span] = set()
        self._counters: dict[str, RowCounter] = {}

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return all parts that any table of the use case has had."""
        return parts_of_routes({part for era in self._eras for part in era.settings.parts})

    def has_population(self, span: Span) -> bool:
        """Return True when a span's tables have the population that the use case has now."""
        return self._known_eras.at(span.start).where == self._wanted.where

    def step(
        self, sums: Sums, index: CellIndex, progress: Progress, most: int = SPANS_AT_ONCE
    ) -> CalendarChange | None:
        """Make the tables that are due; return them with new eras as a change, or None.

        Args:
            sums: of a span; all use cases of one step share it, so that each span is read once.
            index: meaning of all cells.
            progress: how far counting is.
            most: spans at most.
        """
        batch = CalendarChange(self.use_case)
        self._follow_settings(progress.watermark, batch)
        turns = due(progress, self._made, self._known_eras)
        if not self._eras:
            self._begin(sums, index, turns, batch)
        for stage, span in turns[:most] if self._eras else ():
            self._make(stage, span, sums, index, batch)
        return batch if batch.tables or batch.eras else None

    @property
    def _known_eras(self) -> Eras:
        return Eras(self._eras or [Era(self._since, self._wanted)])

    def _begin(
        self, sums: Sums, index: CellIndex, turns: Iterable[Turn], batch: CalendarChange
    ) -> None:
        """Add the first era to ``batch``, with the parts of the first span that uses any."""
        counter = RowCounter(self._wanted, self._rates)
        for _, span in turns:
            if span in self._looked:
                continue
            self._looked.add(span)
            if parts := counter.parts_in_use(sums(span), index):
                settings = replace(self._wanted, parts=parts_of_routes(parts))
                self._add_era(Era(self._since, settings), batch)
                return

    def _follow_settings(self, watermark: int, batch: CalendarChange) -> None:
        """Add an era to ``batch`` if settings changed; spans that have begun keep theirs.

        Days of another zone would overlap with those before, so these wait until four weeks end.
        """
        if not self._eras or replace(self._eras[-1].settings, parts=()) == self._wanted:
            return
        settings = replace(self._wanted, parts=parts_of_routes((), self._eras[-1].settings.parts))
        offset, starts_at = self._known_eras.at(watermark).offset, watermark + 1
        if offset != settings.offset:
            starts_at = Span.containing(watermark, SpanKind.FOUR_WEEKS, offset).end
        later = [era.starts_at for era in self._eras if era.starts_at > starts_at]
        for start in (starts_at, *later):
            self._add_era(Era(start, settings), batch)

    def _add_era(self, era: Era, batch: CalendarChange) -> None:
        kept = [before for before in self._eras if before.starts_at != era.starts_at]
        self._eras = sorted([*kept, era], key=lambda era: era.starts_at)
        batch.eras.append(era)

    def _make(
        self, stage: Stage, span: Span, sums: Sums, index: CellIndex, batch: CalendarChange
    ) -> None:
        """Make the tables of one stage of a span, and add them to ``batch``."""
        settings, counted = self._known_eras.at(span.start), (sums(span), index)
        rows = self._counter(settings).count(*counted, span.kind)
        closed = ClosedSpan(span, settings, rows, self._tables_within(stage, span, batch))
        if stage is Stage.DECISIONS:
            tables = closed.decision_table(self._effect(span, settings, sums, index))
            self._follow_rates(span, counted, batch)
        elif stage is Stage.FIRST:
            tables = closed.first_edition()
            if span.kind >= SpanKind.WEEK:
                tables += closed.pairs_table(self._counter(settings).count_pairs(*counted))
                batch.labels.append((span, closed.label_counts, settings.digest))
        else:
            tables = closed.final_edition(self._counts_before(closed, batch))
            batch.finished.append(span)
        batch.tables.extend((table, settings.digest) for table in tables)
        oldest = self._made.get((stage, span.kind), Made(span.start, span.start)).oldest
        self._made[stage, span.kind] = Made(oldest, span.start)

    def _effect(self, span: Span, settings: TableSettings, sums: Sums, index: CellIndex) -> float:
        """Return the design effect of a span's units, rounded up; 1 where none was sent.

        A unit lasts for a UTC day. So the effect is that of the UTC days that ended within the
        span, or, of an hour before midnight, of the day before.
        """
        ended, population = span.end // DAY, population_id(settings.where)
        stored = self._store.read(read_cluster_days, ended - LIKENESS_DAYS)
        units = {day: facts for (day, part), facts in stored.items() if part == population}
        days = range(min(span.start // DAY, ended - 1), ended)
        if not units.keys() & set(days):
            return 1.0
        spans = (Span.containing(day * DAY, SpanKind.DAY) for day in days)
        decisions = (self._counter(settings).count_decisions(sums(utc), index) for utc in spans)
        sizes = [units.get(day, DayClusters()) for day in days]
        recent = [facts for day, facts in units.items() if day < ended]
        return published_effect([*zip(sizes, decisions, strict=True)], recent, settings.k)

    def _tables_within(self, stage: Stage, span: Span, batch: CalendarChange) -> tuple[Table, ...]:
        """Return the tables within a span, stored or in ``batch``; none for an hour's decisions."""
        if stage is Stage.DECISIONS and span.kind is SpanKind.HOUR:
            return ()
        stored = self._store.read(read_tables, self.use_case, span.start, until=span.end)
        return (*stored, *(table for table, _ in batch.tables if span.holds(table.span)))

    def _counts_before(self, closed: ClosedSpan, batch: CalendarChange) -> Int64s:
        """Return the label counts of the first edition, or the present ones if unknown."""
        now, span = closed.label_counts, closed.span
        made = [counts for labelled, counts, _ in batch.labels if labelled == span]
        before = made[0] if made else self._store.read(read_first_labels, self.use_case, span)
        return now if before is None else before.reshape(now.shape)

    def _counter(self, settings: TableSettings) -> RowCounter:
        """Return the counter of rows under these settings, made at the first call and kept."""
        if settings.digest not in self._counters:
            self._counters[settings.digest] = RowCounter(settings, self._rates)
        return self._counters[settings.digest]

    def _follow_rates(self, span: Span, counted: Counted, batch: CalendarChange) -> None:
        """Add an era to ``batch`` if audit rates came into use, or fell out of use.

        A day adds parts; a week keeps those alone that are in use: an empty part widens every row.
        """
        week = Span.containing(span.start, SpanKind.WEEK, span.offset)
        whole_week = span.kind is SpanKind.WEEK
        if not whole_week and (span.kind is not SpanKind.DAY or span.end == week.end):
            return
        settings = self._known_eras.at(span.end)
        in_use = self._counter(settings).parts_in_use(*counted)
        kept = () if whole_week else settings.parts
        parts = parts_of_routes({*in_use, *kept}, settings.parts)
        if settings.k and parts != settings.parts:
            self._add_era(Era(span.end, replace(settings, parts=parts)), batch)

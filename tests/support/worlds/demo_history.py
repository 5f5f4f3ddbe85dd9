"""The demo's world counted in memory: no broker, no store, only the core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
from cubes import window_table
from released_rows import WEEK, report_of
from slice_tables import by_stratum

from monitor.composition.site import report_facts
from monitor.core.counts.cells import (
    COUNTERS,
    Counter,
    Counts,
    Int64s,
    Route,
    Stratum,
    atom_text,
    content_id,
    merge,
)
from monitor.core.counts.completeness import mature
from monitor.core.counts.labels import READY, UNDECIDABLE
from monitor.core.counts.rollup import CellIndex, roll_up
from monitor.core.publish.calendar_contract import ContractInTables
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import Snapshot
from monitor.core.tables.closed_span import ClosedSpan
from monitor.core.tables.reader import Measure, Table
from monitor.core.tables.row_counts import RowCounter
from monitor.core.tables.settings import Part, TableSettings, parts_of_routes
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.time import DAY, HOUR, WINDOWS
from monitor.demo.demo_run import demo_settings
from monitor.demo.world import ATTRIBUTES, AUDIT_RATE, Decisions, Labels, Synthetic
from monitor.reports import WeeklyReport

SETTINGS = demo_settings("127.0.0.1:9092", "sqlite:///demo.db", 0)
CODING = SETTINGS.coding
(CONTRACT,) = SETTINGS.contracts
MANY = 400_000  # decisions; more than any test makes
PARTS = (Part(Route.AUTO_SERVE, AUDIT_RATE), Part(Route.HUMAN_REVIEW, 1.0))
TABLES = replace(TableSettings.from_contract(CONTRACT, CODING), parts=parts_of_routes(PARTS))
UNSAID = -1
SHAPE = (*(len(values) for values in ATTRIBUTES.values()), len(Route), CODING.bands)


class History:
    """Counts of the demo by hour and cell, as they stand at ``synthetic.now``."""

    def __init__(self, seed: int) -> None:
        self.synthetic = Synthetic(seed)
        self._hours: dict[int, Counts] = {}
        self._meaning: dict[int, tuple[int, int, str]] = {}
        self._ids: dict[int, int] = {}
        self._cells = np.zeros(MANY, np.int64)
        self._said = np.full(MANY, UNSAID)
        self._rows = RowCounter(TABLES, CODING.audit_rates)
        self._tables = UseCaseTables(TABLES.parts)

    def live_until(self, until: int) -> None:
        while self.synthetic.now < until:
            step = self.synthetic.step()
            self._decide(step.decisions)
            for correction in (False, True):  # a first label counts before its correction
                self._label(step.labels.take(step.labels.correction == correction))

    def snapshot(self) -> Snapshot:
        """What the service would publish now."""
        watermark, frontier = self.synthetic.now // HOUR * HOUR, self._frontier() * HOUR
        for kind in (SpanKind.HOUR, SpanKind.DAY):
            self._close(_closed_spans(kind, frontier - DAY, watermark), Measure.DECISIONS)
            self._close(_closed_spans(kind, frontier - DAY, frontier), Measure.READY)
        seen = ContractInTables(CONTRACT, self._tables, CODING)
        table = seen.table([window_table(seen, WINDOWS[CONTRACT.window])])
        return Snapshot(watermark, frontier, (table,))

    def _close(self, spans: Iterable[Span], measure: Measure) -> None:
        """Make the tables of these spans, each once."""
        for span in spans:
            if span not in self._tables.tables.get(measure, {}):
                counts = self._sum(span.start // HOUR, span.end // HOUR)
                rows = self._rows.count(counts, self._index())
                closed = ClosedSpan(span, TABLES, rows, self._within(span))
                decisions = measure is Measure.DECISIONS
                self._tables.add(closed.decision_table() if decisions else closed.first_edition())

    def _within(self, span: Span) -> list[Table]:
        tables = [table for made in self._tables.tables.values() for table in made.values()]
        return [table for table in tables if span.holds(table.span)]

    def _decide(self, decisions: Decisions) -> None:
        band = np.searchsorted(CODING.score_bands, decisions.score, side="right")
        axes = (*decisions.values.T, decisions.route, band)
        codes = np.ravel_multi_index(axes, SHAPE)
        cells = np.array([self._cell(code) for code in codes.tolist()], np.int64)
        rows = np.zeros((len(decisions), COUNTERS), np.int64)
        rows[:, Counter.N] = 1
        rows[:, Counter.Q] = decisions.requested
        self._add(decisions.at, cells, rows)
        self._cells[decisions.number] = cells

    def _label(self, labels: Labels) -> None:
        before, cells = self._said[labels.number], self._cells[labels.number]
        self._add(labels.at, cells, _says(labels.ready) - _says(before))
        self._said[labels.number] = labels.ready

    def _add(self, at: Int64s, cells: Int64s, rows: Int64s) -> None:
        hours = at // HOUR
        for hour in np.unique(hours).tolist():
            mine = hours == hour
            fresh = Counts.from_rows(cells[mine], rows[mine])
            self._hours[hour] = merge([self._hours.get(hour, Counts.empty()), fresh])

    def _cell(self, code: int) -> int:
        if code in self._ids:
            return self._ids[code]
        *values, route, band = (int(i) for i in np.unravel_index(code, SHAPE))
        names = zip(ATTRIBUTES.items(), values, strict=True)
        text = atom_text({name: list(listed)[value] for (name, listed), value in names})
        asked = 1.0 if route == Route.HUMAN_REVIEW else AUDIT_RATE
        passed = route != Route.BLOCKED_BY_EVIDENCE
        stratum = Stratum(Route(route), band, CODING.rate_index(asked), passed).code
        cell = self._ids[code] = content_id(f"{text}/{stratum}")
        self._meaning[cell] = (content_id(text), stratum, text)
        return cell

    def _sum(self, first: int, end: int) -> Counts:
        return merge(self._hours[hour] for hour in range(first, end) if hour in self._hours)

    def _index(self) -> CellIndex:
        ids = sorted(self._meaning)
        return CellIndex(
            np.array(ids, np.int64),
            np.array([self._meaning[i][0] for i in ids], np.int64),
            np.array([self._meaning[i][1] for i in ids], np.int64),
            {atom: text for atom, _, text in self._meaning.values()},
        )

    def _frontier(self) -> int:
        """End of the newest hour whose labels are in."""
        hours = [hour for hour in sorted(self._hours) if hour < self.synthetic.now // HOUR]
        index = self._index()
        tables = [by_stratum(roll_up(self._hours[hour], index, ())) for hour in hours]
        received, requested = (np.stack([table[i][0] for table in tables]) for i in (0, 1))
        return int(hours[np.flatnonzero(mature(received, requested))[-1]]) + 1


def _says(ready: Int64s) -> Int64s:
    """What a label adds; nothing where nothing was said yet."""
    rows = np.zeros((len(ready), COUNTERS), np.int64)
    rows[:, Counter.LABELLED] = (ready != UNSAID) & (ready != UNDECIDABLE)
    rows[:, Counter.READY] = ready == READY
    rows[:, Counter.UNDECIDABLE] = ready == UNDECIDABLE
    return rows


@cache
def demo_report() -> WeeklyReport:
    """The demo's report: its world two days after its regression, as one week."""
    history = History(seed=1)
    history.live_until(history.synthetic.world.regression_at + 2 * DAY)
    (table,) = history.snapshot().contracts
    window = next(one for one in table.windows if one.window == table.window)
    named = replace(table, windows=(replace(window, window=WEEK.name),))
    made = Release(WEEK.name, WEEK.start, WEEK.end, (named,))
    return report_of(made, report_facts(SETTINGS))


def _closed_spans(kind: SpanKind, since: int, until: int) -> Iterator[Span]:
    """Yield a kind's spans, from the one that contains ``since`` to the last within ``until``."""
    span = Span.containing(since, kind, 0)
    while span.end <= until:
        yield span
        span = Span(kind, span.index + 1, span.offset)

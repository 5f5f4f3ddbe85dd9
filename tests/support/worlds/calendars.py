"""A store that is counted into by hand, and the calendar of one use case on it.

Decisions are of two attributes, ``city`` and ``tier``; each call of :meth:`CalendarStore.count`
adds to one hour what a fold would add: to the hour and to the UTC day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import sqlalchemy as sa

from monitor.core.contract import Contract, GroupBy, Limits
from monitor.core.counts.cells import (
    COUNTERS,
    Counter,
    Counts,
    PaneCounts,
    Route,
    Stratum,
    atom_text,
    content_id,
)
from monitor.core.counts.clusters import DayClusters, UnitGroup, population_id
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.core.tables.reader import Table
from monitor.core.tables.spans import ANCHOR, Edition, Span
from monitor.core.time import DAY, WEEK, Grain, pane_of
from monitor.evaluate.dictionary import CellDictionary
from monitor.evaluate.tables.calendar import Calendar, progress_of, sums_of
from monitor.flushes import Dictionary
from monitor.store.codings import write_eras
from monitor.store.database import writing
from monitor.store.dictionary_rows import write_dictionary
from monitor.store.evaluator.calendar_tables import read_tables
from monitor.store.evaluator.cluster_days import add_cluster_days
from monitor.store.evaluator.pane_sums import add_counts
from monitor.store.evaluator.store import Cycle, EvaluatorStore

BEGIN = ANCHOR + 4 * WEEK
"""The Monday on which the four weeks of these tests begin."""
HORIZON = 3 * DAY
AGGREGATES = 395 * DAY
USE_CASE = "shop"
CODING = Coding(
    (Attribute("city", ("oslo", "rome")), Attribute("tier", ("a", "b"))),
    audit_rates=(1.0, 0.5, 0.05),
)
CONTRACT = Contract(
    name=USE_CASE,
    version="1",
    owner="tests",
    limits=Limits(Fraction(1, 10), Fraction(1, 10), None, None, None, 50, 30),
    window="7d",
    group_bys=(GroupBy(("city",), "city=oslo"), GroupBy(("tier",), "tier=a")),
    synthetic=False,
    k=11,
)
AUTO = Stratum(Route.AUTO_SERVE, 0, 2)
REVIEW = Stratum(Route.HUMAN_REVIEW, 0, 0)
BLOCKED = Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0, evidence_passed=False)


def labelled(ready: int, not_ready: int, **more: int) -> dict[str, int]:
    """Counters of labels."""
    return {"labelled": ready + not_ready, "ready": ready, **more}


@dataclass
class CalendarStore:
    """Counts and calendar of one store.

    Attributes:
        engine: of the store.
        contract: of the use case.
        coding: how decisions are coded.
        offset: hours that days begin before those of UTC.
    """

    engine: sa.Engine
    contract: Contract = CONTRACT
    coding: Coding = CODING
    offset: int = 0

    def __post_init__(self) -> None:
        self.store = EvaluatorStore(self.engine, "decisions")
        with writing(self.engine) as connection:
            write_eras(connection, CodingHistory.always(self.coding))
        self.restart()

    def restart(self, **settings: object) -> None:
        """A new evaluator, with other settings if some are given."""
        self.contract = replace(self.contract, **settings)  # type: ignore[arg-type]
        self.epoch = self._lease()
        self.calendar = Calendar(self.store, self.contract, self.coding, self.offset)

    def _lease(self) -> int:
        epoch = self.store.lease.acquire("tests", DAY)
        assert epoch is not None
        return epoch

    def count(
        self, at: int, atom: Mapping[str, str], stratum: Stratum = AUTO, n: int = 0, **counters: int
    ) -> None:
        """Count decisions, or labels of decisions, of one cell in the hour that holds ``at``."""
        text = atom_text(atom)
        meaning = (content_id(text), content_id("v1"), stratum.code)
        cell = content_id("/".join(map(str, meaning)))
        values = np.zeros((1, COUNTERS), np.int64)
        for name, number in {"n": n, **counters}.items():
            values[0, Counter[name.upper()]] = number
        counts = Counts(np.array([cell]), values)
        with writing(self.engine) as connection:
            known = Dictionary({meaning[0]: text}, {meaning[1]: "v1"}, {cell: meaning})
            write_dictionary(connection, known)
            panes = [PaneCounts(g, pane_of(at, g), counts) for g in (Grain.HOUR, Grain.DAY)]
            add_counts(connection, panes)

    def count_units(self, at: int, units: DayClusters) -> None:
        """Add sums over the units of the use case to the UTC day that holds ``at``."""
        group = UnitGroup(at // DAY, population_id(self.contract.where))
        with writing(self.engine) as connection:
            add_cluster_days(connection, {group: units})

    def count_evenly(self, at: int) -> None:
        """Count 60 decisions of every slice on both routes, of which 25 are ready, 25 are not."""
        for values in product(("oslo", "rome"), ("a", "b")):
            atom = dict(zip(("city", "tier"), values, strict=True))
            for stratum in (AUTO, REVIEW):
                self.count(at, atom, stratum, n=60, q=60, **labelled(25, 25))

    def make(self, watermark: int, *, labels_to: int | None = None, most: int = 48) -> int:
        """Make all tables that are due; returns in how many transactions."""
        cycles = 0
        while self.step(watermark, labels_to=labels_to, most=most):
            cycles += 1
        return cycles

    def step(self, watermark: int, *, labels_to: int | None = None, most: int = 48) -> bool:
        """Make some tables that are due; returns False where nothing was."""
        index = CellDictionary(self.store.cells).index
        frontier = watermark - HORIZON if labels_to is None else labels_to
        progress = progress_of(self.store, watermark, frontier, HORIZON, AGGREGATES)
        assert progress is not None, "something is counted"
        change = self.calendar.step(sums_of(self.store), index, progress, most)
        if change is None:
            return False
        cycle = Cycle(folded=self.store.deltas.cursors(), calendar=[change])
        self.store.commit(self.epoch, cycle, watermark)
        return True

    def tables(self, since: int = -(1 << 62)) -> list[Table]:
        """All published tables."""
        return self.store.read(read_tables, USE_CASE, since)

    def of(self, span: Span, edition: Edition = Edition.FIRST) -> dict[str, Table]:
        """Tables of a span and an edition by measure."""
        return {
            table.measure.value: table
            for table in self.tables()
            if table.span == span and table.edition is edition
        }


def shown(table: Table) -> dict[str, tuple[list[int], list[int]]]:
    """Both ends of all counts of each row, by its name."""
    rows, bands = table.layout.rows, table.bands
    ends = zip(bands.low[:, 1:].tolist(), bands.high[:, 1:].tolist(), strict=True)
    return {str(row): (low, high) for row, (low, high) in zip(rows, ends, strict=True)}

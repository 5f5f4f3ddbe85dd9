"""Seeded simulation: what published intervals cover where requests of one unit are alike.

Eight slices, all reviews labelled and a part of what is served. Counts go through the real tables:
row rule and table rule, seven days and their week, k = 11. The same tables without their effect
are what is published where no unit is sent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from cubes import LIMITS, Cell, contract, table

from monitor.core.contract import COMPLEMENT, GroupBy, Verdict
from monitor.core.counts.cells import Int64s, Route, Stratum
from monitor.core.counts.clusters import DayClusters, UnitSizes
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.metric import Metric
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.calendar_rows import GroupInTables
from monitor.core.publish.snapshot import ShownGap, ShownRate
from monitor.core.tables.closed_span import ClosedSpan
from monitor.core.tables.design_effect import published_effect
from monitor.core.tables.reader import Measure, Table
from monitor.core.tables.row_counts import RowCounter
from monitor.core.tables.settings import Part, TableSettings, parts_of_routes
from monitor.core.tables.spans import Span, SpanKind

SLICES = tuple(f"s{number}" for number in range(8))
SHARES = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.06, 0.05, 0.04])
CODING = Coding((Attribute("w", SLICES),), audit_rates=(1.0, 0.2, 0.05))
CONTRACT = contract(GroupBy(("w",), COMPLEMENT), limits=LIMITS)
DAYS, WEEK = Span(SpanKind.DAY, 6).before(7), Span(SpanKind.WEEK, 0)
METRICS = (Metric.SELECTION, Metric.TPR, Metric.FPR)
READY = 0.6


@dataclass(frozen=True)
class World:
    """Requests of a use case; a unit is in one slice.

    Attributes:
        size: requests of a unit.
        alike: all requests of a unit have one outcome; else each has its own.
        clustered: share of the decisions that come in units; the others have none.
        a_day: decisions.
        audit: place of the audit rate of served ones in the coding.
        tpr: P(served | ready).
        fpr: P(served | not ready).
    """

    size: int = 50
    alike: bool = True
    clustered: float = 1.0
    a_day: int = 16_000
    audit: int = 2
    tpr: float = 0.8
    fpr: float = 0.25

    def rate(self, metric: Metric) -> float:
        """The router's rate, the same in all slices."""
        selection = READY * self.tpr + (1 - READY) * self.fpr
        return {Metric.SELECTION: selection, Metric.TPR: self.tpr, Metric.FPR: self.fpr}[metric]


class Decisions(NamedTuple):
    """Decisions of a day, arrays of one item each; unit 0 is none."""

    unit: Int64s
    row: Int64s
    ready: npt.NDArray[np.bool_]
    served: npt.NDArray[np.bool_]
    labelled: npt.NDArray[np.bool_]


def drawn(rng: np.random.Generator, world: World) -> Decisions:
    """A day of decisions: first those of units, then the others."""
    units = int(world.a_day * world.clustered / world.size)
    alone = world.a_day - units * world.size
    sender = np.repeat(np.arange(units + alone), [world.size] * units + [1] * alone)
    row = rng.choice(len(SLICES), units + alone, p=SHARES)[sender]
    chances = rng.random((2, units + alone))[:, sender]
    if not world.alike:
        chances = rng.random((2, world.a_day))
    ready = chances[0] < READY
    served = chances[1] < np.where(ready, world.tpr, world.fpr)
    labelled = ~served | (rng.random(world.a_day) < CODING.audit_rates[world.audit])
    return Decisions(np.where(sender < units, sender + 1, 0), row, ready, served, labelled)


def units_of(decisions: Decisions) -> DayClusters:
    """Sums over the day's units."""
    day = np.zeros_like(decisions.unit)
    sizes = UnitSizes.from_decisions(decisions.unit, day, decisions.served)
    assert sizes is not None
    return sizes.sums


def cells_of(world: World, decisions: Decisions) -> Iterator[Cell]:
    """Their counts by slice and route."""
    counts = np.zeros((len(SLICES), 2, 2, 2), np.int64)
    flags = (~decisions.served, decisions.labelled, decisions.ready)
    np.add.at(counts, (decisions.row, *(flag.astype(int) for flag in flags)), 1)
    for row, name in enumerate(SLICES):
        for route in (Route.AUTO_SERVE, Route.HUMAN_REVIEW):
            stratum = Stratum(route, 0, world.audit if route is Route.AUTO_SERVE else 0)
            of_route = counts[row, route]
            n, labelled, ready = of_route.sum(), of_route[1].sum(), of_route[1, 1]
            yield Cell({"w": name}, stratum, int(n), int(labelled), int(ready))


def tables_of(world: World, seed: int) -> list[Table]:
    """The tables of a week and its days."""
    rng = np.random.default_rng(seed)
    days = [drawn(rng, world) for _ in DAYS]
    units = [units_of(day) for day in days]
    cells = [[*cells_of(world, day)] for day in days]
    settings = replace(TableSettings.from_contract(CONTRACT, CODING), parts=parts_of(world))
    tables: list[Table] = []
    for span in (*DAYS, WEEK):
        within = [place for place, day in enumerate(DAYS) if span.holds(day)]
        counted = table(chain.from_iterable(cells[place] for place in within))
        rows = RowCounter(settings, CODING.audit_rates).count(*counted, span.kind)
        past = [made for made in tables if made.measure is Measure.DECISIONS]
        of_span = [(units[place], world.a_day) for place in within]
        effect = published_effect(of_span, units[: within[-1] + 1], CONTRACT.k)
        tables += ClosedSpan(span, settings, rows, past).decision_table(effect)
        tables += ClosedSpan(span, settings, rows, tables).first_edition()
    return tables


def parts_of(world: World) -> tuple[Part, ...]:
    audited = Part(Route.AUTO_SERVE, CODING.audit_rates[world.audit])
    return parts_of_routes({audited, Part(Route.HUMAN_REVIEW, 1.0)})


def group_of(world: World, tables: Sequence[Table]) -> GroupInTables:
    """The group-by as a reader of the tables sees it."""
    in_memory = UseCaseTables(parts_of(world))
    in_memory.add(tables)
    return GroupInTables.from_tables(CONTRACT, CONTRACT.group_bys[0], in_memory)


class Seen(NamedTuple):
    """Shares of the intervals of rates and of gaps that hold the truth, and mean width of rates."""

    rates: float
    gaps: float
    width: float


def seen(world: World, published: Sequence[Sequence[Table]], metric: Metric) -> Seen:
    """What readers see of many weeks: of the week's table, and of its seven days together."""
    rates, gaps = list[ShownRate](), list[ShownGap]()
    for group in (group_of(world, tables) for tables in published):
        for spans in ([WEEK], DAYS):
            rows = replace(group, compared=1).over(spans, metric)
            rates += [shown for shown in rows.rates if shown]
            gaps += [shown for shown in rows.gaps if shown]
    widths = [(shown.upper or 0) - (shown.lower or 0) for shown in rates if shown.value is not None]
    return Seen(covered(rates, world.rate(metric)), covered(gaps, 0), float(np.mean(widths)))


def covered(shown: Sequence[ShownRate | ShownGap], truth: float) -> float:
    bounds = np.array([(one.lower, one.upper) for one in shown], float)
    return float(((bounds[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= bounds[:, 1])).mean())


def both(world: World, seeds: int) -> Iterator[tuple[Metric, Seen, Seen]]:
    """Each metric, and what is seen of it with the measured effect, and without."""
    widened = [tables_of(world, seed) for seed in range(seeds)]
    plain = [[replace(table, effect=1.0) for table in tables] for tables in widened]
    sys.stdout.write(f"{world}: effects {effects_of(widened)}\n")
    for metric in METRICS:
        found = seen(world, widened, metric), seen(world, plain, metric)
        sys.stdout.write(f"  {metric}: {found[0]}, not widened {found[1]}\n")
        yield metric, *found


def effects_of(published: Sequence[Sequence[Table]]) -> set[float]:
    decisions = (table for tables in published for table in tables)
    return {table.effect for table in decisions if table.measure is Measure.DECISIONS}


def test_intervals_are_widened_where_requests_are_alike() -> None:
    for metric, widened, plain in both(World(), 12):
        assert min(widened.rates, widened.gaps) >= 0.93
        if metric is not Metric.FPR:  # of a few audits, hardly two are of one unit
            assert max(plain.rates, plain.gaps) < 0.6


@pytest.mark.full
@pytest.mark.parametrize(
    "world",
    [
        World(),
        World(audit=0),
        World(clustered=0.5),
        World(size=10, a_day=3_000),
        World(size=50, a_day=2_000),
    ],
    ids=str,
)
def test_widened_intervals_cover_as_they_say(world: World) -> None:
    for metric, widened, plain in both(world, 120):
        assert min(widened.rates, widened.gaps) >= 0.94
        if metric is Metric.SELECTION:
            assert max(plain.rates, plain.gaps) < 0.87


@pytest.mark.full
def test_requests_alike_make_no_wrong_fail() -> None:
    """Without a gap, at most one group-by in twenty may have a slice that fails."""
    world = World(audit=0, a_day=4_000)
    widened = [tables_of(world, seed) for seed in range(60)]
    plain = [[replace(table, effect=1.0) for table in tables] for tables in widened]
    for metric in (Metric.TPR, Metric.FPR):
        shares = [fails(world, tables, metric) for tables in (widened, plain)]
        sys.stdout.write(f"{metric}: {shares}\n")
        assert shares[0] <= 0.05
        assert shares[1] > 0.25


def fails(world: World, published: Sequence[Sequence[Table]], metric: Metric) -> float:
    """Share of the weeks in which a slice fails."""
    groups = [group_of(world, tables) for tables in published]
    verdicts = [
        {shown.verdict for shown in group.over([WEEK], metric).gaps if shown} for group in groups
    ]
    return float(np.mean([Verdict.FAIL in of_week for of_week in verdicts]))


def test_the_intervals_of_single_decisions_stay_as_they_are() -> None:
    tables = [tables_of(World(size=1), 0), tables_of(World(size=1, clustered=0.5), 1)]
    assert effects_of(tables) == {1.0}


@pytest.mark.parametrize("a_day", [2_000, 16_000])
def test_independent_requests_of_a_unit_cost_little_width(a_day: int) -> None:
    for _, widened, plain in both(World(size=3, alike=False, a_day=a_day), 10):
        assert plain.width <= widened.width <= 1.10 * plain.width
        assert widened.rates >= plain.rates

"""Calendar tables on each kind of database: written once, read as they were, fenced, forgotten."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa
from calendars import AUTO, BEGIN, CODING, HORIZON, REVIEW, USE_CASE, CalendarStore, shown

from monitor.core.contract import GroupBy
from monitor.core.counts.clusters import DayClusters
from monitor.core.counts.coding import Attribute
from monitor.core.tables.bands import row_rule
from monitor.core.tables.reader import Measure, Table
from monitor.core.tables.settings import TableSettings
from monitor.core.tables.spans import Edition, Span, SpanKind
from monitor.core.time import DAY, HOUR, WEEK
from monitor.errors import FencedError
from monitor.store.evaluator.calendar_tables import (
    CalendarChange,
    delete_before,
    pack,
    read_eras,
    read_made,
    read_tables,
    unpack,
)
from monitor.store.evaluator.store import Cycle
from monitor.store.schema import calendar_labels
from monitor.store.upkeep.recode import drop_unlisted

END = BEGIN + 4 * WEEK
FIRST = END - 2 * DAY
WEEK_SPAN, FOUR_WEEKS = (
    Span.containing(FIRST, kind) for kind in (SpanKind.WEEK, SpanKind.FOUR_WEEKS)
)
HOUR_SPAN = Span.containing(FIRST, SpanKind.HOUR)


@pytest.fixture
def world(engine: sa.Engine) -> CalendarStore:
    """The last two days of four weeks: the fewest hours that spans of all kinds end with."""
    made = CalendarStore(engine)
    for day in range(2):
        made.count_evenly(FIRST + day * DAY)
    return made


def commit(world: CalendarStore, *changes: CalendarChange) -> None:
    world.store.commit(world.epoch, Cycle(calendar=changes), 0)


def of_hour(world: CalendarStore, counts: tuple[int, int, int]) -> tuple[Table, str]:
    """A made-up decision table of one hour."""
    (era,) = read_all(world)
    rows = np.tile(np.array(counts), (len(era.layout_of(SpanKind.HOUR).rows), 1))
    frame = era.frame(HOUR_SPAN)
    return Table(frame, Measure.DECISIONS, row_rule(rows, 11)), era.digest


def read_all(world: CalendarStore) -> list[TableSettings]:
    return [era.settings for era in world.store.read(read_eras, USE_CASE)]


def test_what_is_read_is_what_was_made(world: CalendarStore) -> None:
    world.make(END)

    (settings,) = read_all(world)
    decisions = world.of(WEEK_SPAN)["decisions"]
    assert [part.name for part in settings.parts] == [
        *("auto_serve@0.05", "human_review@1", "blocked_by_evidence")
    ]
    assert decisions.frame == settings.frame(WEEK_SPAN)
    assert shown(decisions)["city=rome"] == ([231, 231, 0], [241, 241, 10])
    assert unpack(pack(decisions.bands), len(decisions.bands)).low.tolist() == (
        decisions.bands.low.tolist()
    )


ALIKE = DayClusters(240, 48, 120, 240 * 48, 120 * 48, 120 * 48)
"""Five units of 48 decisions, half of which are served, among the 480 of an even day."""


def effects(world: CalendarStore, kind: SpanKind) -> dict[int, float]:
    decisions = (table for table in world.tables() if is_decisions(table))
    return {table.span.start: table.effect for table in decisions if table.span.kind is kind}


def test_tables_have_the_effect_of_the_units_of_their_days(engine: sa.Engine) -> None:
    world = CalendarStore(engine)
    for day in range(3):
        world.count_evenly(END - (3 - day) * DAY)
    world.count_units(FIRST, ALIKE)
    world.make(END, labels_to=END)

    assert effects(world, SpanKind.DAY) == {FIRST - DAY: 1, FIRST: 32, FIRST + DAY: 1}
    hours = effects(world, SpanKind.HOUR)
    assert [hours[FIRST + DAY + hour * HOUR] for hour in (-2, -1, 0, 22, 23)] == [1, 32, 32, 32, 1]
    assert effects(world, SpanKind.WEEK) == {WEEK_SPAN.start: 12}, "a third of its decisions"
    assert {table.effect for table in world.tables() if not is_decisions(table)} == {1}

    stored = world.of(WEEK_SPAN)["decisions"]
    (settings,) = read_all(world)
    narrower = [(replace(stored, effect=1.0), settings.digest)]
    with pytest.raises(FencedError):
        commit(world, CalendarChange(USE_CASE, narrower))


@pytest.mark.parametrize("cities", [("oslo", "oslo"), ("oslo", "rome"), ("rome", "oslo")])
def test_the_effect_does_not_depend_on_slices_nor_on_other_use_cases(
    world: CalendarStore, cities: tuple[str, str]
) -> None:
    world.count_units(FIRST, ALIKE)
    world.contract = replace(world.contract, where=(("city", "oslo"),))
    world.count_units(FIRST + DAY, ALIKE)
    world.restart(where=())
    for city, stratum in zip(cities, (AUTO, REVIEW), strict=True):
        world.count(FIRST, {"city": city, "tier": "a"}, stratum, n=100)
    world.make(END)
    assert effects(world, SpanKind.DAY) == {FIRST: 24, FIRST + DAY: 1}


def test_fewer_than_k_decisions_have_no_effect(engine: sa.Engine) -> None:
    world = CalendarStore(engine)
    for stratum in (AUTO, REVIEW):
        world.count(FIRST, {"city": "oslo", "tier": "a"}, stratum, n=5)
    world.count_evenly(FIRST + DAY)
    world.count_units(FIRST, DayClusters(10, 5, 5, 50, 25, 25))
    world.make(END)
    assert effects(world, SpanKind.DAY) == {FIRST: 1, FIRST + DAY: 1}


def test_tables_are_read_by_kind_from_an_instant_on(world: CalendarStore) -> None:
    world.make(END)
    days = world.store.read(read_tables, USE_CASE, FIRST, kinds=[SpanKind.DAY])

    assert [table.span.start for table in days] == [FIRST, FIRST + DAY]
    assert world.store.read(read_tables, "another use case", 0) == []
    inside = world.store.read(read_tables, USE_CASE, FIRST, until=FIRST + 2 * HOUR)
    assert {table.span.kind for table in inside} == {SpanKind.HOUR}


def test_a_second_table_of_a_span_must_be_the_same(world: CalendarStore) -> None:
    world.make(FIRST + HOUR)
    stored = world.of(HOUR_SPAN)["decisions"]
    (settings,) = read_all(world)

    commit(world, CalendarChange(USE_CASE, [(stored, settings.digest)]))
    with pytest.raises(FencedError):
        commit(world, CalendarChange(USE_CASE, [of_hour(world, (50, 60, 70))]))
    with pytest.raises(FencedError):
        commit(world, CalendarChange(USE_CASE, [(stored, "other settings")]))

    assert pack(world.of(HOUR_SPAN)["decisions"].bands) == pack(stored.bands)


def test_a_fenced_evaluator_writes_nothing(world: CalendarStore) -> None:
    old = world.epoch
    world.store.lease.release("tests")
    assert world.store.lease.acquire("another", DAY) != old

    with pytest.raises(FencedError):
        world.step(FIRST + HOUR)

    assert world.tables() == []


def test_retention_keeps_the_newest_of_each_kind(world: CalendarStore) -> None:
    world.make(END, labels_to=END)
    before = world.store.read(read_made, USE_CASE)

    delete_before(world.engine, FIRST + DAY + HOUR, BEGIN)
    kept = {
        kind: [t.span.start for t in world.tables() if t.span.kind is kind and is_decisions(t)]
        for kind in SpanKind
    }
    assert kept[SpanKind.DAY] == [FIRST + DAY]
    assert kept[SpanKind.HOUR][0] == FIRST + DAY
    assert kept[SpanKind.WEEK] == [WEEK_SPAN.start]

    delete_before(world.engine, END + 50 * DAY, END + 50 * DAY)
    after = world.store.read(read_made, USE_CASE)
    assert {key: made.newest for key, made in after.items()} == {
        key: made.newest for key, made in before.items()
    }
    assert {made.oldest == made.newest for made in after.values()} == {True}
    assert label_counts(world) == []

    world.restart()
    assert not world.make(END, labels_to=END), "nothing is made a second time"


def is_decisions(table: Table) -> bool:
    return table.measure is Measure.DECISIONS


def label_counts(world: CalendarStore) -> list[int]:
    with world.engine.connect() as connection:
        return sorted(connection.execute(sa.select(calendar_labels.c.starts_at)).scalars())


def test_label_counts_go_with_the_final_edition(world: CalendarStore) -> None:
    world.make(END, labels_to=END)
    assert label_counts(world) == [FOUR_WEEKS.start, WEEK_SPAN.start]

    world.make(END + HORIZON, labels_to=END)
    assert label_counts(world) == []
    for span in (WEEK_SPAN, FOUR_WEEKS):
        assert world.of(span, Edition.FINAL).keys() >= {"ready", "not_ready"}


def test_erasing_an_attribute_deletes_its_tables_for_good(world: CalendarStore) -> None:
    world.make(FIRST + HOUR, labels_to=FIRST + HOUR)
    fewer = replace(CODING, attributes=CODING.attributes[:1])
    assert drop_unlisted(world.engine, fewer) == ("tier",)

    assert world.tables() == []
    assert label_counts(world) == []
    (left,) = read_all(world)
    assert "tier" not in left.text
    world.coding = fewer
    world.restart(group_bys=(GroupBy(("city",), "city=oslo"),))
    world.make(FIRST + HOUR)
    assert world.tables() == [], "what was published of these spans is not published again"
    world.count(FIRST + 2 * HOUR, {"city": "oslo"}, n=40)
    world.make(FIRST + 3 * HOUR)
    assert {table.span.start for table in world.tables()} == {FIRST + 2 * HOUR}


def test_erasing_a_value_deletes_tables_that_have_a_row_of_it(world: CalendarStore) -> None:
    world.make(FIRST + HOUR)
    rome_alone = (Attribute("city", ("rome",)), *CODING.attributes[1:])
    drop_unlisted(world.engine, replace(CODING, attributes=rome_alone))
    assert world.tables() == []


def test_tables_of_a_layout_without_the_attribute_stay(world: CalendarStore) -> None:
    world.restart(group_bys=(GroupBy(("city",), "city=oslo"),))
    world.make(FIRST + HOUR)
    before = world.tables()
    drop_unlisted(world.engine, replace(CODING, attributes=CODING.attributes[:1]))
    assert [pack(t.bands) for t in world.tables()] == [pack(t.bands) for t in before]

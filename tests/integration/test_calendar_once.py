"""Calendar tables of one feed: whatever is read at once, the same bytes are made, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from adversary.worlds import AUTO, OTHER, START, World
from calendars import BEGIN, HORIZON, REVIEW, USE_CASE, CalendarStore, shown
from guarded import Guarded, new_store, settings_for, slices_world
from migrated import bring_to_head

from monitor.core.contract import GroupBy
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import Snapshot, encode
from monitor.core.tables.spans import Edition, Span, SpanKind
from monitor.core.time import DAY, HOUR, MINUTE, WEEK
from monitor.evaluate.dictionary import CellDictionary
from monitor.evaluate.tables.calendar import Calendar, progress_of, sums_of
from monitor.store.database import create_engine
from monitor.store.evaluator.calendar_tables import pack, read_eras
from monitor.store.evaluator.store import Cycle
from monitor.store.schema import calendar_labels, calendar_layout, calendar_table

DAYS = 3
FIRST = START + 5 * DAY
END = FIRST + DAYS * DAY
"""From Saturday on, so that a week ends with as few hours as can be."""
FLOWS: dict[tuple[str, ...], float] = {
    ("chat", "north"): 900.0,
    ("chat", "south"): 300.0,
    ("voice", "north"): 120.0,
    ("voice", "south"): 9.0,
    (OTHER, "north"): 0.8,
}
LABEL_LAG = 2 * HOUR
NEW_RATE = FIRST + 5 * HOUR
"""From then on everything that is served is audited, too: an audit rate that nobody had before."""


@cache
def world() -> World:
    """Labels come at once: how far they run behind is no part of what is compared here."""
    made = slices_world(FLOWS, DAYS, seed=11)
    order = np.argsort(made.at[made.says], kind="stable")
    says, is_label, ready = (c[order] for c in (made.says, made.labelled, made.ready))
    at = made.at + FIRST - START
    return replace(
        made,
        at=at,
        arrives=at,
        says=says,
        said_at=at[says],
        labelled=is_label,
        ready=ready,
        rate=np.where((at >= NEW_RATE) & (made.route == AUTO), 0, made.rate),
    )


class Site:
    """The real fold of a feed, and the calendar that is made of it."""

    def __init__(self, folder: Path) -> None:
        group_bys = ("a", "b", "a+b")
        settings = settings_for(new_store(folder), folder, world().attributes, *group_bys)
        self.guarded = Guarded(world(), settings)
        self.store = self.guarded.evaluator.store
        self.restart()

    def restart(self) -> None:
        """Read everything from the store again."""
        policy = self.guarded.evaluator.policy
        self.calendar = Calendar(self.store, policy.contracts[0], policy.eras.newest)

    def look(self, now: int, most: int) -> Iterator[int]:
        """Count up to a watermark and make what is due; yields after each transaction."""
        self.guarded.feed(now)
        assert self.guarded.evaluator.cycle()
        progress = progress_of(self.store, now, now - LABEL_LAG, HORIZON, 395 * DAY)
        assert progress is not None
        index = CellDictionary(self.store.cells).index
        while change := self.calendar.step(sums_of(self.store), index, progress, most):
            epoch = self.store.lease.acquire(self.guarded.evaluator.policy.owner, DAY)
            assert epoch is not None
            cycle = Cycle(folded=self.store.deltas.cursors(), calendar=[change])
            self.store.commit(epoch, cycle, now)
            yield len(change.tables)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that is stored of the calendar."""
        tables = (calendar_table, calendar_layout, calendar_labels)
        with self.guarded.engine.connect() as connection:
            return {
                table.name: sorted(tuple(row) for row in connection.execute(sa.select(table)))
                for table in tables
            }


@cache
def published(*looks: int, most: int = 48, restarts: bool = False) -> dict[str, Any]:
    """What is stored if the evaluator works at these watermarks and at no other."""
    with TemporaryDirectory() as name:
        site = Site(Path(name))
        for now in looks:
            for _ in site.look(now, most):
                if restarts:
                    site.restart()
        rows = site.rows()
        site.guarded.close()
    return rows


def random_looks(seed: int) -> Sequence[int]:
    rng = np.random.default_rng(seed)
    steps = rng.choice([20 * MINUTE, 5 * HOUR, 30 * HOUR], 60, p=[0.2, 0.5, 0.3])
    looks = FIRST + np.cumsum(steps)
    return [*looks[looks < END].tolist(), END]


CUTS = {"daily": list(range(FIRST + DAY, END + 1, DAY)), "live": random_looks(1)}


@pytest.mark.parametrize("cut", CUTS)
def test_files_and_a_live_feed_make_the_same_bytes(cut: str) -> None:
    at_once, pieces = published(END), published(*CUTS[cut])
    assert pieces["calendar_layout"] == at_once["calendar_layout"]
    assert pieces == at_once


@cache
def newest_snapshot(*looks: int) -> Snapshot:
    """Return what is published at the last of these watermarks; no other is evaluated."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        group_bys = ("a", "b", "a+b")
        settings = settings_for(new_store(folder), folder, world().attributes, *group_bys)
        guarded = Guarded(world(), settings)
        for now in looks:
            guarded.feed(now)
            snapshot = guarded.publish()
        guarded.close()
    return snapshot


@pytest.mark.full
@pytest.mark.parametrize("cut", CUTS)
def test_files_and_a_live_feed_publish_the_same_snapshot(cut: str) -> None:
    assert encode(newest_snapshot(*CUTS[cut])) == encode(newest_snapshot(END))


@pytest.mark.full
def test_the_snapshots_compared_show_rates_with_and_without_labels() -> None:
    rows = [
        row
        for window in newest_snapshot(END).contracts[0].windows
        for group in window.groups
        for row in group.rows
    ]
    assert {row.slice for row in rows if row.rates} >= {"a=chat", "a=voice", "b=north"}
    assert any(row.rates.keys() & {Metric.TPR, Metric.FPR} for row in rows)


def test_a_restart_after_any_transaction_changes_nothing() -> None:
    assert published(END, most=7, restarts=True) == published(END)


def test_the_tables_compared_show_something() -> None:
    rows = published(END)
    kinds = {(row[1], row[3]) for row in rows["calendar_table"]}
    assert {(int(kind), m) for kind in list(SpanKind)[:3] for m in ("decisions", "ready")} <= kinds
    eras = [row[1] for row in rows["calendar_layout"]]
    assert eras[1:] == [FIRST + DAY], "a day that has begun keeps its parts"


# Counted by hand.


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[CalendarStore]:
    url = f"sqlite:///{tmp_path}/store.db"
    bring_to_head(url)
    engine = create_engine(url)
    yield CalendarStore(engine)
    engine.dispose()


OSLO = {"city": "oslo", "tier": "a"}


def test_a_final_edition_changes_rows_in_which_k_labels_changed(shop: CalendarStore) -> None:
    sunday, end = BEGIN + 6 * DAY, BEGIN + WEEK
    shop.count_evenly(sunday)
    shop.make(end, labels_to=end)
    shop.count(sunday, OSLO, REVIEW, revised=10, ready=10)  # ten corrections: fewer than k
    shop.count(sunday, {"city": "rome", "tier": "b"}, REVIEW, revised=30, ready=-20)
    shop.make(end + HORIZON, labels_to=end)

    week = Span.containing(BEGIN, SpanKind.WEEK)
    first, final = (shown(shop.of(week, edition)["ready"]) for edition in Edition)
    assert first["city=oslo"] == final["city=oslo"]
    assert first["city=rome"] != final["city=rome"]


def test_changed_settings_hold_for_spans_that_begin_later(shop: CalendarStore) -> None:
    saturday = BEGIN + 5 * DAY
    for hour in (0, 1, 2, 25):
        shop.count_evenly(saturday + hour * HOUR)
    shop.make(saturday + HOUR + MINUTE)
    shop.restart(group_bys=(GroupBy(("city",), "city=oslo"),))
    shop.make(saturday + HOUR + MINUTE)
    shop.make(saturday + 2 * DAY)

    rows = {table.span: {str(row) for row in table.layout.rows} for table in shop.tables()}
    has_tier = {span.name: "tier=a" in names for span, names in rows.items()}
    second_hour, third_hour = (
        Span.containing(saturday + n * HOUR, SpanKind.HOUR).name for n in (1, 2)
    )
    today, tomorrow = (Span.containing(saturday + n * DAY, SpanKind.DAY).name for n in (0, 1))
    assert (has_tier[second_hour], has_tier[third_hour]) == (True, False)
    assert (has_tier[today], has_tier[tomorrow]) == (True, False)
    assert has_tier[Span.containing(BEGIN, SpanKind.WEEK).name]
    assert len(shop.store.read(read_eras, USE_CASE)) == 2


def test_nothing_is_published_before_a_part_has_k_decisions(shop: CalendarStore) -> None:
    """Then all hours of the day get their tables: which rates are in use is known now."""
    for hour in range(20):
        shop.count(BEGIN + hour * HOUR, OSLO, n=1)
    assert shop.make(BEGIN + 20 * HOUR) == 0
    assert shop.make(BEGIN + DAY) == 1
    assert len({table.span for table in shop.tables()}) == 25


def test_an_hour_is_read_once_for_all_its_rows(shop: CalendarStore) -> None:
    shop.count_evenly(BEGIN)
    statements: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    sa.event.listen(shop.engine, "before_cursor_execute", note)
    shop.make(BEGIN + HOUR)
    reads = [text for text in statements if "FROM counts" in text and "MIN(pane)" not in text]
    assert len(reads) == 1


def test_late_decisions_are_counted_in_longer_spans_alone(shop: CalendarStore) -> None:
    shop.count_evenly(BEGIN)
    shop.make(BEGIN + HOUR)
    hour = Span.containing(BEGIN, SpanKind.HOUR)
    before = pack(shop.of(hour)["decisions"].bands)
    shop.count(BEGIN, OSLO, n=500)
    shop.make(BEGIN + DAY)

    assert pack(shop.of(hour)["decisions"].bands) == before
    day = shown(shop.of(Span.containing(BEGIN, SpanKind.DAY))["decisions"])
    assert day["city=oslo"][0][0] > 500


def test_days_of_another_zone_begin_when_four_weeks_have_ended(shop: CalendarStore) -> None:
    shop.count_evenly(BEGIN)
    shop.make(BEGIN + HOUR)
    shop.offset = 2
    shop.restart()
    shop.make(BEGIN + 2 * HOUR)
    eras = shop.store.read(read_eras, USE_CASE)
    assert [era.settings.offset for era in eras] == [0, 2]
    assert eras[1].starts_at == BEGIN + 4 * WEEK

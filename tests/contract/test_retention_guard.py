"""Retention deletes nothing by a clock that is wrong: on both databases alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from emptied import emptied, made

from monitor.core.time import DAY, HOUR, MINUTE, Grain, pane_of
from monitor.errors import RetentionRefusedError
from monitor.store import database as db
from monitor.store.schema import metadata, pending
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import Portion, RetentionPolicy, portions

HORIZON = 30 * DAY
POLICY = RetentionPolicy(
    horizon=HORIZON,
    aggregates=395 * DAY,
    dead_letters=7 * DAY,
    snapshots=395 * DAY,
    dedupe_window=HOUR,
)
NOW = 495_000 * HOUR
YEAR = 365 * DAY
POISON = NOW + 73 * YEAR
HOURS_KEPT = HORIZON + 8 * DAY


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)]
)
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[sa.Engine]:
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    yield from made(request.param, tmp_path_factory.mktemp("store"), server)


@pytest.fixture
def engine(database: sa.Engine) -> sa.Engine:
    return emptied(database)


def span(first: int, end: int, grain: int) -> range:
    """Panes of a grain from one instant to another."""
    return range(first // grain, end // grain)


def fill(
    engine: sa.Engine, hours: Iterable[int], days: Iterable[int] = (), stored: Iterable[int] = ()
) -> None:
    """Counts and waiting decisions of hours, counts of days, Snapshots of instants."""
    tables: dict[str, list[dict[str, Any]]] = {"counts": [], "pending": [], "snapshot": []}
    for hour in hours:
        for cell in (1, 2):
            tables["counts"].append(row("counts", grain=int(Grain.HOUR), pane=hour, cell=cell))
        tables["pending"].append(row("pending", hour=hour, id=hour))
    for day in days:
        tables["counts"].append(row("counts", grain=int(Grain.DAY), pane=day))
    for number, at in enumerate(stored):
        tables["snapshot"].append(row("snapshot", id=number + 1, stored_at=at, body=b"x"))
    with db.writing(engine) as connection:
        for name, rows in tables.items():
            if rows:
                connection.execute(sa.insert(metadata.tables[name]), rows)


def row(table: str, **values: Any) -> dict[str, Any]:
    columns = metadata.tables[table].columns
    zeros = {c.name: b"x" if isinstance(c.type, sa.LargeBinary) else 0 for c in columns}
    return zeros | values


def year(engine: sa.Engine, end: int = NOW) -> None:
    """A store as it is kept after a year of service."""
    pace = {
        "hours": span(end - HOURS_KEPT, end, HOUR),
        "days": span(end - POLICY.aggregates, end, DAY),
        "stored": range(end - 40 * DAY, end, HOUR),
    }
    fill(engine, **pace)
    retention.apply(engine, POLICY, end, end)


def held(engine: sa.Engine) -> Counter[str]:
    """How many rows every table has."""
    with db.reading(engine) as connection:
        return Counter(
            {
                name: connection.execute(sa.select(sa.func.count()).select_from(t)).scalar_one()
                for name, t in metadata.tables.items()
            }
        )


def panes(engine: sa.Engine, grain: Grain) -> set[int]:
    with db.reading(engine) as connection:
        query = sa.text(f"SELECT DISTINCT pane FROM counts WHERE grain = {int(grain)}")
        return set(connection.execute(query).scalars())


def deletes_nothing(engine: sa.Engine, slowest: int | None, now: int) -> str:
    before = held(engine)
    with pytest.raises(RetentionRefusedError) as refused:
        retention.apply(engine, POLICY, slowest, now)
    assert held(engine) == before
    return str(refused.value)


# A clock that is wrong


def test_event_time_and_clock_of_a_far_future(engine: sa.Engine) -> None:
    year(engine)
    said = deletes_nothing(engine, POISON, NOW + 10 * YEAR)
    assert said.endswith("If this is right: slicewatch db prune --confirm")


@pytest.mark.parametrize("slowest", [None, NOW])
def test_a_clock_ten_years_ahead(engine: sa.Engine, slowest: int | None) -> None:
    year(engine)
    before = held(engine)["snapshot"]
    assert before > 24
    said = deletes_nothing(engine, slowest, NOW + 10 * YEAR)
    assert f"{before:,} of {before:,} hours of published Snapshots" in said


def test_event_time_that_is_poisoned_counts_as_the_clock(engine: sa.Engine) -> None:
    """All counts are of the present, and stay."""
    year(engine)
    before = held(engine)
    retention.apply(engine, POLICY, POISON, NOW)
    assert held(engine) == before


def test_event_time_that_is_poisoned_in_a_store_of_the_past(engine: sa.Engine) -> None:
    """What is read is half a year old: by the clock all of it but the days is past its time."""
    year(engine, NOW - 182 * DAY)
    said = deletes_nothing(engine, POISON, NOW)
    assert "hours of hourly counts, all before" in said


def test_each_table_is_guarded_by_itself(engine: sa.Engine) -> None:
    fill(engine, (), days=span(NOW - 300 * DAY, NOW, DAY))
    assert "300 of 300 days of daily counts" in deletes_nothing(
        engine, NOW + 2 * YEAR, NOW + 2 * YEAR
    )
    with db.writing(engine) as connection:
        for hour in span(NOW - 29 * DAY, NOW, HOUR):
            connection.execute(sa.insert(pending), row("pending", hour=hour, id=1))
    later = NOW + 35 * DAY
    said = deletes_nothing(engine, later, later)
    assert "696 of 696 hours of decisions that wait for labels" in said


def test_the_sentence_names_no_number_of_decisions(engine: sa.Engine) -> None:
    fill(engine, span(NOW - 30 * DAY, NOW, HOUR))
    said = deletes_nothing(engine, NOW + YEAR, NOW + YEAR)
    assert said.startswith(
        "retention would delete 720 of 720 hours of hourly counts, all before 2027-05-14 00:00Z,"
        " more than 50% of what is kept, and has deleted nothing."
    ), said


# What is right


def test_a_run_every_ten_minutes(engine: sa.Engine) -> None:
    year(engine)
    for minute in range(0, 130, 10):
        now = NOW + minute * MINUTE
        retention.apply(engine, POLICY, now, now)
    assert min(panes(engine, Grain.HOUR)) == pane_of(NOW + 2 * HOUR - HOURS_KEPT, Grain.HOUR)


@pytest.mark.parametrize("days", [1, 3, 10])
def test_the_first_run_after_an_outage(engine: sa.Engine, days: int) -> None:
    year(engine)
    back = NOW + days * DAY
    retention.apply(engine, POLICY, back, back)
    assert min(panes(engine, Grain.HOUR)) == pane_of(back - HOURS_KEPT, Grain.HOUR)
    assert min(panes(engine, Grain.DAY)) == pane_of(back - POLICY.aggregates, Grain.DAY)


@pytest.mark.parametrize("age", [1, 3, 20])
def test_an_outage_of_a_day_in_a_young_store(engine: sa.Engine, age: int) -> None:
    """So few hours are no question of clocks."""
    fill(engine, span(NOW - age * DAY, NOW, HOUR))
    back = NOW + DAY
    retention.apply(engine, POLICY, back, back)
    assert len(panes(engine, Grain.HOUR)) == age * 24


def test_a_store_of_one_day_that_was_away_for_a_year(engine: sa.Engine) -> None:
    fill(engine, span(NOW - DAY, NOW, HOUR))
    retention.apply(engine, POLICY, NOW + YEAR, NOW + YEAR)
    assert panes(engine, Grain.HOUR) == set()


def test_a_back_fill_of_years(engine: sa.Engine) -> None:
    """Three years come at once, and what is to be kept of them is there."""
    fill(engine, span(NOW - 120 * DAY, NOW, HOUR), span(NOW - 3 * YEAR, NOW, DAY))
    retention.apply(engine, POLICY, NOW, NOW)
    assert len(panes(engine, Grain.HOUR)) == HOURS_KEPT // HOUR
    assert len(panes(engine, Grain.DAY)) == POLICY.aggregates // DAY


def test_a_back_fill_with_decisions_at_times_only(engine: sa.Engine) -> None:
    """Three hours a day: the same share of what is left and of what goes."""
    hours = [h for h in span(NOW - 90 * DAY, NOW, HOUR) if h % 24 < 3]
    fill(engine, hours, span(NOW - 90 * DAY, NOW, DAY))
    found = {one.what: one for one in portions(engine, POLICY, NOW, NOW)}
    assert (found["hourly counts"].deleted, found["hourly counts"].left) == (156, 114)


def test_nothing_is_known_of_event_time(engine: sa.Engine) -> None:
    year(engine)
    before = held(engine)
    retention.apply(engine, POLICY, None, NOW)
    assert held(engine) == before


def test_an_empty_store(engine: sa.Engine) -> None:
    for slowest in (None, NOW, POISON):
        retention.apply(engine, POLICY, slowest, NOW)


# A person


def test_a_person_wants_it(engine: sa.Engine) -> None:
    year(engine)
    late = NOW + 10 * YEAR
    retention.apply(engine, POLICY, late, late, confirmed=True)
    assert panes(engine, Grain.HOUR) == panes(engine, Grain.DAY) == set()
    assert held(engine)["pending"] == 0
    assert held(engine)["snapshot"] == 1, "the newest stays, however old"


def test_what_a_person_is_told_is_what_the_service_refuses(engine: sa.Engine) -> None:
    year(engine)
    late = NOW + 10 * YEAR
    counted = portions(engine, POLICY, late, late)
    looked = portions(engine, POLICY, late, late, exact=False)
    assert [one.refused for one in counted] == [one.refused for one in looked] == [True] * 4
    assert [str(one) for one in counted] == [str(one) for one in looked]


def test_snapshots_are_told_by_the_hour(engine: sa.Engine) -> None:
    """One comes every few seconds, until they are thinned."""
    fill(engine, (), stored=range(NOW - 3 * HOUR, NOW, MINUTE))
    (found,) = portions(engine, POLICY, None, NOW)
    assert (found.deleted, found.left) == (0, 3)
    (found,) = portions(engine, POLICY, None, NOW + 2 * YEAR)
    assert (found.deleted, found.left) == (3, 0)
    assert not found.refused


@pytest.mark.parametrize(
    ("deleted", "left", "whole", "refused"),
    [
        (24, 0, 900, False),
        (25, 0, 900, True),
        (100, 100, 900, False),
        (101, 100, 900, True),
        (101, 100, 200, False),
        (101, 100, 201, True),
        (90_000, 450, 900, False),
        (90_000, 449, 900, True),
    ],
)
def test_the_limits(deleted: int, left: int, whole: int, refused: bool) -> None:
    assert Portion("rows", "hours", NOW, deleted, left, whole).refused is refused

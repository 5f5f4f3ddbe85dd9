"""The facts by which the whole service is judged, read from both databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa
from emptied import KINDS, emptied, made
from pipeline import ManualClock

from monitor.core.blindness import LABELS_MISSED, MISSED, Blind
from monitor.core.counts.labels import LabelColumns
from monitor.core.time import DAY, HOUR, MINUTE, SECOND, Grain, pane_of, to_datetime
from monitor.errors import FencedError
from monitor.ports import Dictionary, Shard, ShardFlush, Tallies
from monitor.store import database as db
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.ingest.label_arrivals import KEPT_HOURS
from monitor.store.schema import counts, label_arrival, ownership
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import RetentionPolicy
from monitor.store.upkeep.service_health import HealthPolicy, missed_since, read_blindness

NOW = 3_000 * 168 * HOUR + 60 * HOUR
"""On the hour, and of no special one."""
HERE = pane_of(NOW, Grain.HOUR)
WEEK = 168
POLICY = HealthPolicy(live=True, lateness=10 * MINUTE, topics=("d", "l"))
D0, D1, L0, L1 = Shard("d", 0), Shard("d", 1), Shard("l", 0), Shard("l", 1)
LONG_AGO = 1


@pytest.fixture(scope="module", params=KINDS)
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[sa.Engine]:
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    yield from made(request.param, tmp_path_factory.mktemp("store"), server)


@pytest.fixture
def engine(database: sa.Engine) -> sa.Engine:
    return emptied(database)


def count(engine: sa.Engine, hours: Mapping[int, int], grain: Grain = Grain.HOUR) -> None:
    """Store so many decisions in hours, each in two cells."""
    with db.writing(engine) as connection:
        for hour, number in hours.items():
            for cell, n in ((1, number // 2), (2, number - number // 2)):
                row: dict[str, Any] = {c.name: 0 for c in counts.columns}
                row |= {"grain": int(grain), "pane": hour, "cell": cell, "n": n}
                connection.execute(sa.insert(counts).values(row))


def missed(engine: sa.Engine, newest: int, now: int = NOW) -> float | None:
    with db.reading(engine) as connection:
        return missed_since(connection, newest, now)


def weeks(hour: int, *numbers: int) -> dict[int, int]:
    """The same hour one, two, ... weeks before."""
    return {hour - WEEK * (back + 1): n for back, n in enumerate(numbers)}


# The usual pace


def test_of_an_empty_store_nothing_is_known(engine: sa.Engine) -> None:
    assert missed(engine, NOW - HOUR) is None


def test_other_grains_say_nothing_of_hours(engine: sa.Engine) -> None:
    count(engine, {LONG_AGO: 5}, Grain.DAY)
    assert missed(engine, NOW - HOUR) is None


@pytest.mark.parametrize(
    ("numbers", "usual"),
    [
        ((100, 100, 100, 100), 100.0),
        ((0, 100, 120, 90), 95.0),  # one outage, one feast
        ((0, 0, 120, 90), 45.0),
        ((0, 0, 0, 90), 0.0),
        ((5000, 100, 110, 100), 105.0),
    ],
)
def test_an_hour_is_usually_as_in_the_median_of_four_weeks(
    engine: sa.Engine, numbers: tuple[int, ...], usual: float
) -> None:
    count(engine, {LONG_AGO: 1, **weeks(HERE - 1, *numbers)})
    assert missed(engine, NOW - HOUR) == usual


def test_a_fifth_week_and_the_day_before_are_not_asked(engine: sa.Engine) -> None:
    hours = {LONG_AGO: 1, **weeks(HERE - 1, 10, 10, 10, 10, 9_000), HERE - 1 - 24: 9_000}
    count(engine, hours)
    assert missed(engine, NOW - HOUR) == 10.0


def test_weeks_before_the_store_began_are_not_known(engine: sa.Engine) -> None:
    """The hour it began in was counted in part."""
    begun = HERE - 1 - 2 * WEEK
    count(engine, {begun - 1: 1, **weeks(HERE - 1, 30, 50)})
    assert missed(engine, NOW - HOUR) == 40.0


def test_the_first_hour_is_no_measure(engine: sa.Engine) -> None:
    count(engine, {HERE - 1 - 2 * WEEK: 50, HERE - 1 - WEEK: 30})
    assert missed(engine, NOW - HOUR) == 30.0


def test_in_the_first_week_it_is_the_day_before(engine: sa.Engine) -> None:
    count(engine, {HERE - 1 - 72: 9_000, HERE - 1 - 24: 25})
    assert missed(engine, NOW - HOUR) == 25.0


def test_on_the_first_day_nothing_is_known(engine: sa.Engine) -> None:
    count(engine, {HERE - 1 - 20: 9_000, HERE - 2: 9_000})
    assert missed(engine, NOW - HOUR) is None


def test_hours_that_are_not_known_add_nothing(engine: sa.Engine) -> None:
    """The day before began in the middle of what is missing."""
    count(engine, {HERE - 3 - 24: 9_000, HERE - 2 - 24: 7, HERE - 1 - 24: 8})
    assert missed(engine, NOW - 3 * HOUR) == 15.0


def test_a_quiet_night_is_usual(engine: sa.Engine) -> None:
    """Nothing came in these hours in any week: nothing is missed, and that is known."""
    count(engine, {LONG_AGO: 1, **weeks(HERE - 9, *(400,) * 4)})
    assert missed(engine, NOW - 8 * HOUR) == 0.0


def test_parts_of_hours(engine: sa.Engine) -> None:
    count(engine, {LONG_AGO: 1, **weeks(HERE - 1, *(60,) * 4), **weeks(HERE, *(120,) * 4)})
    assert missed(engine, NOW - 30 * MINUTE) == 30.0
    assert missed(engine, NOW - 30 * MINUTE, NOW + 15 * MINUTE) == 60.0
    assert missed(engine, NOW + 10 * MINUTE, NOW + 40 * MINUTE) == 60.0


def test_a_newest_beyond_the_clock_misses_nothing(engine: sa.Engine) -> None:
    count(engine, {LONG_AGO: 1, **weeks(HERE, *(120,) * 4)})
    assert not missed(engine, NOW + 5 * MINUTE)
    assert not missed(engine, NOW + 50 * DAY)


@pytest.mark.parametrize("silent_weeks", [1, 2, 3, 4, 9])
def test_a_silence_that_lasts_is_told_as_long_as_it_lasts(
    engine: sa.Engine, silent_weeks: int
) -> None:
    """The weeks of the silence itself say nothing of what is usual."""
    newest = NOW - silent_weeks * WEEK * HOUR
    last = pane_of(newest, Grain.HOUR)
    count(engine, dict.fromkeys(range(last - 5 * WEEK, last), 10))
    found = missed(engine, newest)
    assert found is not None
    assert found >= MISSED


@pytest.mark.parametrize("days", [1, 2, 3, 4, 6, 20])
def test_a_silence_in_the_first_week_is_told_as_long_as_it_lasts(
    engine: sa.Engine, days: int
) -> None:
    newest = NOW - days * DAY
    last = pane_of(newest, Grain.HOUR)
    count(engine, dict.fromkeys(range(last - 72, last), 10))
    found = missed(engine, newest)
    assert found is not None
    assert found >= MISSED


def test_a_silence_that_begins_at_a_weekend_is_told_on_monday(engine: sa.Engine) -> None:
    newest = NOW - 60 * HOUR
    monday = pane_of(newest, Grain.HOUR) + 58
    count(engine, {LONG_AGO: 1, **weeks(monday, *(300,) * 4)})
    assert missed(engine, newest, newest + 58 * HOUR) == 0.0
    assert missed(engine, newest, newest + 59 * HOUR) == 300.0


# Who reads


def claimed(engine: sa.Engine, *shards: Shard) -> dict[Shard, int]:
    store = IngestStore(engine, "d", ManualClock())
    store.register(shards)
    return {claim.shard: claim.epoch for claim in store.claim(shards, "a worker")}


def seen(engine: sa.Engine) -> dict[Shard, int | None]:
    with db.reading(engine) as connection:
        rows = connection.execute(sa.select(ownership)).all()
    return {Shard(row.topic, row.part): row.seen_at for row in rows}


def put(engine: sa.Engine, shard: Shard, **values: object) -> None:
    with db.writing(engine) as connection:
        where = sa.and_(ownership.c.topic == shard.topic, ownership.c.part == shard.partition)
        assert connection.execute(sa.update(ownership).where(where).values(values)).rowcount == 1


def database_time(engine: sa.Engine) -> int:
    with db.reading(engine) as connection:
        return db.database_now(connection)


def whys(engine: sa.Engine, now: int = NOW, policy: HealthPolicy = POLICY) -> list[Blind]:
    return [one.why for one in read_blindness(engine, policy, now)]


def test_a_claim_is_a_sign_of_life(engine: sa.Engine) -> None:
    IngestStore(engine, "d", ManualClock()).register([D0, L0])
    assert seen(engine) == {D0: None, L0: None}
    assert whys(engine) == [Blind.NO_WORKER]
    before = database_time(engine)
    claimed(engine, D0, L0)
    after = database_time(engine)
    assert all(at is not None and before <= at <= after for at in seen(engine).values())
    assert whys(engine) == []


def test_a_beat_is_kept_by_the_clock_of_the_database(engine: sa.Engine) -> None:
    """The worker's own says the year 2033."""
    epochs = claimed(engine, D0, L0)
    for shard in (D0, L0):
        put(engine, shard, seen_at=LONG_AGO)
    assert whys(engine) == [Blind.NO_WORKER]
    before = database_time(engine)
    IngestStore(engine, "d", ManualClock()).beat(epochs)
    assert all(at is not None and before <= at for at in seen(engine).values())
    assert whys(engine) == []


def test_a_shard_that_another_has_claimed_is_passed_over(engine: sa.Engine) -> None:
    old = claimed(engine, D0, L0)
    claimed(engine, D0)
    for shard in (D0, L0):
        put(engine, shard, seen_at=LONG_AGO)
    IngestStore(engine, "d", ManualClock()).beat(old)
    found = seen(engine)
    assert found[D0] == LONG_AGO
    assert found[L0] != LONG_AGO
    (reason,) = read_blindness(engine, POLICY, NOW)
    assert "no worker reads d/0:" in reason.text


def test_a_worker_that_is_there_and_cannot_store(engine: sa.Engine) -> None:
    """For how long is the database's to say; one that stores again, or a new claim, ends it."""
    epochs = claimed(engine, D0, L0)
    store = IngestStore(engine, "d", ManualClock())
    store.beat(epochs, storing=False)
    assert whys(engine) == []
    put(engine, D0, unstored_since=database_time(engine) - 70 * SECOND)
    store.beat(epochs, storing=False)
    (reason,) = read_blindness(engine, POLICY, NOW)
    assert (reason.why, "read of d/0 cannot" in reason.text) == (Blind.NOT_STORED, True)
    store.beat(epochs)
    assert whys(engine) == []
    put(engine, D0, unstored_since=LONG_AGO)
    assert whys(engine) == [Blind.NOT_STORED]
    claimed(engine, D0)
    assert whys(engine) == []


def test_a_beat_of_nothing_and_of_what_is_gone(engine: sa.Engine) -> None:
    claimed(engine, D0)
    store = IngestStore(engine, "d", ManualClock())
    store.beat({})
    store.beat({D1: 1, Shard("other", 3): 7})
    assert set(seen(engine)) == {D0}


@pytest.mark.parametrize(("age", "blind"), [(50 * SECOND, False), (70 * SECOND, True)])
def test_a_minute_without_a_sign_of_life(engine: sa.Engine, age: int, blind: bool) -> None:
    """Whatever this machine's own clock says."""
    claimed(engine, D0, L0)
    put(engine, D0, seen_at=database_time(engine) - age)
    for now in (1, NOW, NOW + 20 * 365 * DAY):
        assert whys(engine, now) == ([Blind.NO_WORKER] if blind else [])


def test_a_parked_shard_that_a_worker_holds_is_read_by_it(engine: sa.Engine) -> None:
    """It is told as parked; the others go on, and do not wait for it here."""
    claimed(engine, D0, D1, L0)
    put(engine, D0, max_decided_at=NOW, watermark=NOW)
    put(engine, D1, max_decided_at=NOW - DAY, watermark=NOW - DAY)
    assert whys(engine) == [Blind.BEHIND]
    put(engine, D1, parked="its data is gone")
    assert whys(engine) == []


def test_retired_and_unknown_topics_are_not_awaited(engine: sa.Engine) -> None:
    claimed(engine, D0, D1, L0)
    put(engine, D1, seen_at=None, retired_at=5)
    claimed(engine, Shard("other", 0))
    put(engine, Shard("other", 0), seen_at=None)
    assert whys(engine) == []


def test_under_clock_history_nothing_is_expected(engine: sa.Engine) -> None:
    IngestStore(engine, "d", ManualClock()).register([D0, L0])
    history = HealthPolicy(live=False, lateness=0, topics=("d", "l"))
    assert read_blindness(engine, history, NOW) == []


def test_an_empty_store_is_not_blind(engine: sa.Engine) -> None:
    assert whys(engine) == []


@pytest.mark.parametrize(("usual", "blind"), [(9, False), (10, True)])
def test_a_silent_router(engine: sa.Engine, usual: int, blind: bool) -> None:
    """Two hours without a decision."""
    claimed(engine, D0, D1, L0)
    for shard in (D0, D1):
        newest = NOW - 2 * HOUR
        put(engine, shard, max_decided_at=newest, watermark=newest, holds_back=True)
    hours = {LONG_AGO: 1}
    for hour in (HERE - 1, HERE - 2):
        hours |= weeks(hour, *(usual,) * 4)
    count(engine, hours)
    assert whys(engine) == ([Blind.DECISIONS_SILENT] if blind else [])
    assert whys(engine, NOW - 91 * MINUTE) == []


def test_one_old_event_in_a_young_store_does_not_hide_a_silence(engine: sa.Engine) -> None:
    """The service is ten days old; one decision came four weeks late, within the horizon."""
    last = HERE - 2
    count(engine, {last - 29 * 24: 1, **dict.fromkeys(range(last - 240, last), 100)})
    today = last // 24
    count(engine, {today - 29: 1, **dict.fromkeys(range(today - 9, today + 1), 2_400)}, Grain.DAY)
    found = missed(engine, NOW - 2 * HOUR)
    assert found is not None
    assert found >= MISSED


# Labels


def labels(*complaints: int) -> LabelColumns:
    """Labels of decisions that nobody has seen, driven by a complaint (1) or not (0)."""
    rows = [(n, NOW, complaint, 0, 1, NOW, n, 1, 0, 0) for n, complaint in enumerate(complaints, 1)]
    return LabelColumns.of_rows(rows)


def flush(store: IngestStore, shard: Shard, epoch: int, start: int, read: LabelColumns) -> None:
    end = start + max(1, len(read))
    tallies = Tallies(messages=end, events=end)
    store.flush(
        [ShardFlush(shard, epoch, start, end, None, None, False, tallies, labels=read)],
        Dictionary(),
    )


def begun(engine: sa.Engine, *shards: Shard) -> tuple[IngestStore, dict[Shard, int]]:
    """A store whose shards are ours and begin at offset 0."""
    store = IngestStore(engine, "d", ManualClock())
    store.register(shards)
    claims = store.claim(shards, "a worker")
    for claim in claims:
        store.start(claim, 0)
    return store, {claim.shard: claim.epoch for claim in claims}


def arrivals(engine: sa.Engine) -> dict[tuple[str, int, int], int]:
    with db.reading(engine) as connection:
        rows = connection.execute(sa.select(label_arrival)).all()
    return {(row.topic, row.hour, row.part): row.n for row in rows}


def came(engine: sa.Engine, hours: Mapping[int, int], topic: str = "l") -> None:
    """Labels of two shards in hours before the present one of the database."""
    here = pane_of(database_time(engine), Grain.HOUR)
    rows = [
        {"topic": topic, "hour": here - back, "part": part, "n": n}
        for back, number in hours.items()
        for part, n in ((0, number // 2), (1, number - number // 2))
    ]
    with db.writing(engine) as connection:
        connection.execute(sa.insert(label_arrival), rows)


def test_labels_are_counted_by_the_hour_they_come_in(engine: sa.Engine) -> None:
    """By the database's clock: the worker's own says the year 2033. Complaints are not counted."""
    store, epochs = begun(engine, L0, L1)
    before = pane_of(database_time(engine), Grain.HOUR)
    flush(store, L0, epochs[L0], 0, labels(0, 0, 1, 0))
    flush(store, L0, epochs[L0], 4, labels(0))
    flush(store, L1, epochs[L1], 0, labels(0, 0))
    flush(store, L1, epochs[L1], 2, labels(1))
    flush(store, L1, epochs[L1], 3, labels())
    found = arrivals(engine)
    assert {(topic, part): n for (topic, _, part), n in found.items()} == {("l", 0): 4, ("l", 1): 2}
    after = pane_of(database_time(engine), Grain.HOUR)
    assert {hour for _, hour, _ in found} <= {before, after}


def test_nothing_is_written_where_no_label_came(engine: sa.Engine) -> None:
    store, epochs = begun(engine, L0)
    flush(store, L0, epochs[L0], 0, labels())
    flush(store, L0, epochs[L0], 1, labels(1, 1))
    assert arrivals(engine) == {}


def test_a_flush_that_is_fenced_counts_no_arrival(engine: sa.Engine) -> None:
    store, epochs = begun(engine, L0)
    flush(store, L0, epochs[L0], 0, labels(0, 0))
    with pytest.raises(FencedError):
        flush(store, L0, epochs[L0], 0, labels(0, 0))
    store.claim([L0], "another")
    with pytest.raises(FencedError):
        flush(store, L0, epochs[L0], 2, labels(0))
    assert sum(arrivals(engine).values()) == 2


def always(first: int, last: int, a_day: int) -> dict[int, int]:
    """As many labels a day, at every hour from ``first`` hours before now to ``last``."""
    return dict.fromkeys(range(last, first), a_day // 24)


@pytest.mark.parametrize(("back", "silent"), [(1, False), (23, False), (25, True), (600, True)])
def test_labels_that_do_not_come(engine: sa.Engine, back: int, silent: bool) -> None:
    """An hour may end while this runs: on the limit itself the unit tests are."""
    claimed(engine, D0, L0)
    came(engine, always(back + 840, back, 480))
    assert whys(engine) == ([Blind.LABELS_SILENT] if silent else [])
    assert whys(engine, LONG_AGO) == whys(engine, NOW), "this machine's clock says nothing"


def test_it_is_told_since_when_to_the_hour(engine: sa.Engine) -> None:
    claimed(engine, D0, L0)
    came(engine, always(900, 30, 480))
    (reason,) = read_blindness(engine, POLICY, NOW)
    last = max(hour for _, hour, _ in arrivals(engine)) * HOUR
    assert f"hardly any label since {to_datetime(last):%Y-%m-%d %H}:00Z was counted" in reason.text
    came(engine, {0: 40})
    assert whys(engine) == []


def test_labels_of_another_topic_are_not_looked_at(engine: sa.Engine) -> None:
    claimed(engine, D0, L0)
    came(engine, always(900, 48, 480), topic="retired")
    assert whys(engine) == []
    came(engine, always(900, 48, 480))
    came(engine, {0: 1000}, topic="retired")
    assert whys(engine) == [Blind.LABELS_SILENT]


def test_few_labels_and_young_stores_have_no_pace(engine: sa.Engine) -> None:
    claimed(engine, D0, L0)
    came(engine, always(900, 30, LABELS_MISSED - 10))
    assert whys(engine) == []
    emptied(engine)
    claimed(engine, D0, L0)
    came(engine, always(30 + 160, 30, 4800))
    assert whys(engine) == []


def test_under_clock_history_labels_are_not_awaited(engine: sa.Engine) -> None:
    came(engine, always(900, 48, 480))
    history = HealthPolicy(live=False, lateness=0, topics=("d", "l"))
    assert read_blindness(engine, history, NOW) == []


RETAINED = RetentionPolicy(
    horizon=DAY, aggregates=DAY, dead_letters=DAY, snapshots=DAY, dedupe_window=0
)


@pytest.mark.parametrize("gone", [0, 2_000 * 24])
def test_the_usual_pace_is_kept_however_long_labels_are_silent(
    engine: sa.Engine, gone: int
) -> None:
    """Five weeks before the last; a clock that was ahead for a while does not make it old."""
    came(engine, always(1_000, 0, 480))
    here = max(hour for _, hour, _ in arrivals(engine))
    ahead = here + 9_000 * 24
    with db.writing(engine) as connection:
        connection.execute(sa.insert(label_arrival).values(topic="l", hour=ahead, part=0, n=5))
    retention.apply(engine, RETAINED, None, (here + gone) * HOUR + MINUTE)
    kept = {hour for _, hour, _ in arrivals(engine)}
    assert kept == {*range(here - KEPT_HOURS, here + 1), ahead}

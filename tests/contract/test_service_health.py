"""The facts by which the whole service is judged, read from both databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
import sqlalchemy as sa
from emptied import KINDS, emptied, made
from pipeline import ManualClock

from monitor.core.blindness import Blind
from monitor.core.counts.labels import LabelColumns
from monitor.core.expected_arrivals import SLOT
from monitor.core.quiet_times import QuietTime
from monitor.core.time import DAY, HOUR, MINUTE, SECOND, Grain, pane_of, to_datetime
from monitor.errors import FencedError
from monitor.flushes import Dictionary, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Tallies
from monitor.store import database as db
from monitor.store.ingest.decision_arrivals import newest_arrival, read_arrivals
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.ingest.label_arrivals import KEPT_HOURS
from monitor.store.schema import label_arrival, ownership, resumption
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import RetentionPolicy
from monitor.store.upkeep.service_health import HealthPolicy, read_blindness

NOW = 3_000 * 168 * HOUR + 60 * HOUR
"""On the hour, and of no special one."""
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
    IngestStore(engine, "d", ManualClock()).beat(epochs, storing=True, waiting={})
    assert all(at is not None and before <= at for at in seen(engine).values())
    assert whys(engine) == []


def test_a_shard_that_another_has_claimed_is_passed_over(engine: sa.Engine) -> None:
    old = claimed(engine, D0, L0)
    claimed(engine, D0)
    for shard in (D0, L0):
        put(engine, shard, seen_at=LONG_AGO)
    IngestStore(engine, "d", ManualClock()).beat(old, storing=True, waiting={})
    found = seen(engine)
    assert found[D0] == LONG_AGO
    assert found[L0] != LONG_AGO
    (reason,) = read_blindness(engine, POLICY, NOW)
    assert "no worker reads d/0:" in reason.text


def test_a_worker_that_is_there_and_cannot_store(engine: sa.Engine) -> None:
    """For how long is the database's to say; one that stores again, or a new claim, ends it."""
    epochs = claimed(engine, D0, L0)
    store = IngestStore(engine, "d", ManualClock())
    store.beat(epochs, storing=False, waiting={})
    assert whys(engine) == []
    put(engine, D0, unstored_since=database_time(engine) - 70 * SECOND)
    store.beat(epochs, storing=False, waiting={})
    (reason,) = read_blindness(engine, POLICY, NOW)
    assert (reason.why, "read of d/0 cannot" in reason.text) == (Blind.NOT_STORED, True)
    store.beat(epochs, storing=True, waiting={})
    assert whys(engine) == []
    put(engine, D0, unstored_since=LONG_AGO)
    assert whys(engine) == [Blind.NOT_STORED]
    claimed(engine, D0)
    assert whys(engine) == []


def test_a_beat_of_nothing_and_of_what_is_gone(engine: sa.Engine) -> None:
    claimed(engine, D0)
    store = IngestStore(engine, "d", ManualClock())
    store.beat({}, storing=True, waiting={})
    store.beat({D1: 1, Shard("other", 3): 7}, storing=True, waiting={})
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


# What waits


def unread(engine: sa.Engine) -> dict[Shard, int | None]:
    with db.reading(engine) as connection:
        rows = connection.execute(sa.select(ownership)).all()
    return {Shard(row.topic, row.part): row.unread_since for row in rows}


def test_decisions_that_wait_and_are_not_read_in_any_week(engine: sa.Engine) -> None:
    """Since when is the database's to say; a worker that dies with them keeps it."""
    epochs = claimed(engine, D0, D1, L0)
    store = IngestStore(engine, "d", ManualClock())
    store.beat(epochs, storing=True, waiting={})
    assert set(unread(engine).values()) == {None}, "all was read"
    store.beat(epochs, storing=True, waiting={D0: False})
    since = unread(engine)[D0]
    assert since is not None
    assert whys(engine) == []
    put(engine, D0, unread_since=since - 4 * MINUTE)
    store.beat(epochs, storing=True, waiting={D0: False})
    assert whys(engine) == [Blind.NOT_READ]
    claimed(engine, D0)
    assert whys(engine) == [Blind.NOT_READ], "a worker that starts again has read nothing yet"
    store.beat({D0: epochs[D0] + 1}, storing=True, waiting={D0: True})
    assert whys(engine) == [], "it reads some of it"


# Arrivals

SLOT_NOW = NOW // SLOT


def arrive(engine: sa.Engine, arrivals: Mapping[int, int], *shards: Shard) -> None:
    """Decisions come by slot, to each of the shards, in a flush of one message."""
    store = IngestStore(engine, "d", ManualClock())
    for claim in store.claim(shards, "a worker"):
        if claim.next_offset is None:
            store.start(claim, 0)
        start = claim.next_offset or 0
        read = ShardFlush(
            claim.shard, claim.epoch, start, start + 1, None, None, True, claim.tallies,
            arrivals=arrivals,
        )  # fmt: skip
        store.flush([read], Dictionary())
        store.beat({claim.shard: claim.epoch}, storing=True, waiting={})


def known(engine: sa.Engine, newest: int = SLOT_NOW) -> dict[int, int]:
    with db.reading(engine) as connection:
        return read_arrivals(connection, "d", newest)


def test_arrivals_of_all_flushes_and_shards_add_up(engine: sa.Engine) -> None:
    arrive(engine, {SLOT_NOW: 3, SLOT_NOW - 1: 2, SLOT_NOW - 40: 5}, D0, D1)
    arrive(engine, {SLOT_NOW: 10}, D1)
    arrive(engine, {}, D1)
    assert known(engine) == {SLOT_NOW: 16, SLOT_NOW - 1: 4, SLOT_NOW - 40: 10}
    with db.reading(engine) as connection:
        assert newest_arrival(connection, "d", NOW) == SLOT_NOW
        assert newest_arrival(connection, "other", NOW) is None
        assert newest_arrival(connection, "d", NOW - DAY) is None, "a clock was ahead"


def nights(*, until: int) -> dict[int, int]:
    """A batch every night of five weeks, and the last one so many nights ago."""
    newest = SLOT_NOW - until * (DAY // SLOT) - 10
    return {newest - night * (DAY // SLOT): 500 for night in range(36)}


@pytest.mark.parametrize(
    ("until", "why"), [(0, []), (1, [Blind.DECISIONS_LATE]), (2, [Blind.DECISIONS_SILENT])]
)
def test_a_nightly_batch_that_does_not_come(
    engine: sa.Engine, until: int, why: list[Blind]
) -> None:
    """It was to come fifty minutes ago: an hour after that there is a ticket."""
    claimed(engine, L0)
    arrive(engine, nights(until=until), D0, D1)
    assert whys(engine, NOW + 30 * MINUTE) == why
    off = replace(POLICY, expects_decisions=False)
    quiet = replace(POLICY, quiet=[QuietTime.named("daily")])
    simulated = replace(POLICY, pace=2.0)
    for policy in (off, quiet, simulated):
        assert whys(engine, NOW + 30 * MINUTE, policy) == []


def test_what_is_usual_is_kept_however_long_nothing_comes(engine: sa.Engine) -> None:
    """Restarts and retention forget none of it."""
    claimed(engine, L0)
    arrive(engine, {SLOT_NOW - 90 * DAY // SLOT: 1, **nights(until=2)}, D0)
    later = NOW + 400 * DAY + 30 * MINUTE
    for now in (NOW, later):
        retention.apply(engine, RETAINED, None, now, confirmed=True)
    assert known(engine, max(nights(until=2))) == nights(until=2)
    assert whys(engine, later) == [Blind.DECISIONS_SILENT]


def test_messages_that_were_lost_are_no_silence_of_the_router(engine: sa.Engine) -> None:
    """All that came since the newest decision is gone from the broker."""
    claimed(engine, L0)
    arrive(engine, nights(until=2), D0)
    lost = max(nights(until=2)) * SLOT
    with db.writing(engine) as connection:
        connection.execute(
            sa.insert(resumption).values(
                topic="d", part=0, epoch=1, from_offset=1, to_offset=9, reason="test",
                resumed_at=NOW, lost_from=lost,
            )
        )  # fmt: skip
    assert whys(engine, NOW + 30 * MINUTE) == []


# Labels


def labels(*complaints: int) -> LabelColumns:
    """Labels of decisions that nobody has seen, driven by a complaint (1) or not (0)."""
    rows = [(n, NOW, complaint, 0, 1, NOW, n, 1, 0, 0) for n, complaint in enumerate(complaints, 1)]
    return LabelColumns.from_rows(rows)


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

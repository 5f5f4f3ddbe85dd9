"""Which id keys a store goes on with, whatever the database; no key of the settings is ever in it.

The fixture ``url`` is the list of databases: another one joins by a parameter.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from set_clock import SetClock

from monitor.core.time import DAY, HOUR, to_micros
from monitor.errors import OutdatedError, SlicewatchError, StoreError
from monitor.id_key import BEGINNING, IdKey
from monitor.records import Shard
from monitor.shard_status import Tallies
from monitor.store import database as db
from monitor.store.id_key_rules import KeyMark, ends, free_day
from monitor.store.id_keys import IdKeys, drop_key, read_marks
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.schema import double_label, meta, metadata, ownership, pending
from monitor.store.shard_rows import read_statuses
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import RetentionPolicy

D0, L0 = Shard("decisions", 0), Shard("labels", 0)
TODAY = 20_000 * DAY  # 2024-10-04
HORIZON = 30 * DAY
A = IdKey("default", BEGINNING, b"the first key of these tests")
B = IdKey("b", TODAY + DAY, b"the second key of these tests")
C = IdKey("c", TODAY + 9 * DAY, b"the third key of these tests")
POLICY = RetentionPolicy(HORIZON, 395 * DAY, 7 * DAY, 395 * DAY, HOUR)


@pytest.fixture
def engine(engine: sa.Engine) -> sa.Engine:
    IngestStore(engine, "decisions", SetClock(TODAY)).register([D0, L0])
    return engine


def keep(engine: sa.Engine, *wanted: IdKey) -> tuple[IdKey, ...]:
    return IdKeys(engine).keep(wanted, HORIZON)


def refusal(engine: sa.Engine, *wanted: IdKey, horizon: int = HORIZON) -> str:
    """Why these keys are refused; a start and a check say the same, and nothing is changed."""
    before = everything(engine)
    with pytest.raises(SlicewatchError) as caught:
        IdKeys(engine).keep(wanted, horizon)
    with pytest.raises(SlicewatchError) as checked:
        IdKeys(engine).changes(wanted, horizon)
    assert str(caught.value) == str(checked.value)
    assert everything(engine) == before
    assert "\n" not in str(caught.value)
    for one in wanted:
        assert one.key.decode() not in str(caught.value)
    return str(caught.value)


def read_to(engine: sa.Engine, at: int, hour: int | None = None) -> None:
    """Events up to an instant were read; with ``hour`` a decision of it can still get labels."""
    with db.writing(engine) as connection:
        values = {"max_decided_at": at, "watermark": at}
        connection.execute(sa.update(ownership).values(values))
        if hour is not None:
            row = {"hour": hour // HOUR, "id": 5, "ts": hour, "cell": 1, "request": 1, "part": 0}
            connection.execute(sa.insert(pending), row)


def labelled_twice(engine: sa.Engine, hour: int) -> None:
    """Two reviewers labelled a decision of that time."""
    said = {column.name: 1 for column in double_label.c}
    with db.writing(engine) as connection:
        connection.execute(sa.insert(double_label), said | {"hour": hour // HOUR})


def marks(engine: sa.Engine) -> list[tuple[str, int]]:
    with db.reading(engine) as connection:
        return [(mark.id, mark.start) for mark in read_marks(connection)]


def everything(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    with db.reading(engine) as connection:
        return {
            table.name: sorted(
                (tuple(row) for row in connection.execute(sa.select(table))), key=str
            )
            for table in metadata.sorted_tables
        }


def epochs(engine: sa.Engine) -> list[int]:
    return [status.epoch for status in read_statuses(engine)]


def names(*keys: IdKey) -> list[tuple[str, int]]:
    return [(key.id, key.start) for key in keys]


# What is stored


def test_the_store_knows_names_days_and_fingerprints(engine: sa.Engine) -> None:
    assert keep(engine, A, B) == (A, B)
    assert marks(engine) == names(A, B)
    stored = str(everything(engine))
    for one in (A, B):
        assert one.key.decode() not in stored
        assert one.key.hex() not in stored
    (first, _) = everything(engine)["id_key"]
    assert first == ("b", B.start, KeyMark.from_key(B).fingerprint)


def test_the_same_keys_again_change_nothing(engine: sa.Engine) -> None:
    keep(engine, A)
    read_to(engine, TODAY)
    before = everything(engine)
    keep(engine, A)
    assert everything(engine) == before
    assert IdKeys(engine).changes([A], HORIZON) == []


def test_where_nothing_was_read_any_keys_may_replace_any(engine: sa.Engine) -> None:
    for keys in ((A,), (IdKey("x", BEGINNING, b"y" * 16), B), (B,), (A, C)):
        assert keep(engine, *keys) == keys
        assert marks(engine) == names(*keys)


# Rotation


def test_a_key_is_added_for_a_day_to_come(engine: sa.Engine) -> None:
    keep(engine, A)
    read_to(engine, TODAY + 5 * HOUR)
    assert IdKeys(engine).changes([A, B], HORIZON) == ['id key "b" is new']
    before = epochs(engine)
    assert keep(engine, A, B) == (A, B)
    assert marks(engine) == names(A, B)
    assert [epoch - 1 for epoch in epochs(engine)] == before  # whoever worked must claim again


@pytest.mark.parametrize(
    ("read", "day"),
    [(TODAY + DAY, "2024-10-06"), (TODAY + DAY - HOUR // 60, "2024-10-06"),
     (TODAY + 3 * DAY, "2024-10-08")],
)  # fmt: skip
def test_a_key_for_a_day_that_was_read_is_refused(engine: sa.Engine, read: int, day: str) -> None:
    """Also a minute before that day: a label may name a time that is inexact by as much."""
    keep(engine, A)
    read_to(engine, read)
    message = refusal(engine, A, B)
    assert message.startswith('privacy.id_keys, key "b": is new')
    assert f"from_day = {day} or later" in message
    later = IdKey("b", to_micros_of(day), B.key)
    assert keep(engine, A, later) == (A, later)


def to_micros_of(day: str) -> int:
    from datetime import UTC, datetime

    return to_micros(datetime.fromisoformat(day).replace(tzinfo=UTC))


def test_another_key_under_a_known_name_is_refused(engine: sa.Engine) -> None:
    keep(engine, A, B)
    read_to(engine, TODAY)
    message = refusal(engine, IdKey(A.id, A.start, b"another" * 3), B)
    assert message.startswith("privacy.id_key: this store was written with another key")
    message = refusal(engine, A, IdKey(B.id, B.start, b"another" * 3))
    assert message.startswith('privacy.id_keys, key "b": this store was written with another key')


def test_a_known_key_under_another_name_is_told_its_name(engine: sa.Engine) -> None:
    keep(engine, A)
    read_to(engine, TODAY)
    message = refusal(engine, IdKey("2024", BEGINNING, A.key))
    assert 'this store knows this key as "default"' in message


def test_another_only_key_is_refused(engine: sa.Engine) -> None:
    keep(engine, IdKey("2024", BEGINNING, A.key))
    read_to(engine, TODAY)
    message = refusal(engine, IdKey("default", BEGINNING, b"another" * 3))
    assert message.startswith("privacy.id_key: is new")
    assert 'hashed with the key "2024"; keep that one' in message


def test_the_day_of_a_key_in_use_stays(engine: sa.Engine) -> None:
    keep(engine, A, B)
    read_to(engine, TODAY)
    moved = IdKey("b", B.start + DAY, B.key)
    assert keep(engine, A, moved) == (A, moved)  # nothing is hashed with it yet
    assert keep(engine, A, B) == (A, B)
    read_to(engine, B.start)
    message = refusal(engine, A, moved)
    assert 'the key "b" was in use with from_day = 2024-10-05; set it so again' in message
    assert "no from_day" in refusal(engine, IdKey(A.id, TODAY - DAY, A.key), B)


# Older settings


def test_settings_without_a_later_key_are_outdated(engine: sa.Engine) -> None:
    keep(engine, A, B)
    read_to(engine, TODAY)
    for older in ((A,), (A, C)):
        assert "settings are older than the store's" in refusal(engine, *older)
        with pytest.raises(OutdatedError, match='lacks the key "b" from 2024-10-05 on'):
            keep(engine, *older)
        with pytest.raises(OutdatedError):
            IdKeys(engine).in_force(older)


def test_a_worker_that_was_started_before_a_rotation_cannot_claim(engine: sa.Engine) -> None:
    old = IngestStore(engine, "decisions", SetClock(TODAY), None, keep(engine, A))
    old.claim([D0], "old")
    read_to(engine, TODAY)
    keep(engine, A, B)
    with pytest.raises(OutdatedError, match="restart it with the new ones"):
        old.claim([D0], "old")
    new = IngestStore(engine, "decisions", SetClock(TODAY), None, IdKeys(engine).in_force([A, B]))
    new.claim([D0], "new")
    assert read_statuses(engine)[0].owner == "new"


def test_a_key_cannot_change_while_a_claim_is_made(engine: sa.Engine) -> None:
    """Either the claim is first and then fenced, or it meets the new keys and is refused."""
    keep(engine, A)
    read_to(engine, TODAY)
    both, claimed = threading.Barrier(2), []
    old = IngestStore(engine, "decisions", SetClock(TODAY), None, (A,))

    def claim() -> None:
        both.wait()
        with suppress(OutdatedError):
            claimed.extend(old.claim([D0], "old"))

    def rotate() -> None:
        both.wait()
        keep(engine, A, B)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(claim), threads.submit(rotate)]:
            done.result()
    (status, *_) = read_statuses(engine)
    assert [claim for claim in claimed if claim.epoch == status.epoch] == []


# The end of a key


def rotated(engine: sa.Engine) -> None:
    keep(engine, A, B)
    read_to(engine, TODAY, hour=TODAY + DAY - HOUR)


def test_a_key_is_needed_until_its_days_are_past_the_horizon(engine: sa.Engine) -> None:
    rotated(engine)
    for at in (B.start, B.start + HORIZON - 1):
        read_to(engine, at)
        message = refusal(engine, B)
        assert 'the key "default" is missing' in message
        assert "keep it until event time has passed 2024-11-04" in message
        assert "slicewatch db drop-key default" in message
    with pytest.raises(OutdatedError):
        IdKeys(engine).in_force([B])


def test_a_key_is_needed_as_long_as_rows_are_there(engine: sa.Engine) -> None:
    rotated(engine)
    late = B.start + HORIZON + HOUR
    read_to(engine, late)
    assert 'the key "default" is missing' in refusal(engine, B)
    retention.apply(engine, POLICY, late, late)
    before = epochs(engine)
    assert IdKeys(engine).changes([B], HORIZON) == ['id key "default" is forgotten']
    assert keep(engine, B) == (B,)
    assert marks(engine) == names(B)
    assert KeyMark.from_key(A).fingerprint not in str(everything(engine))
    assert [epoch - 1 for epoch in epochs(engine)] == before
    assert "is new and meant for all days" in refusal(engine, A, B)  # it cannot come back
    later = IdKey("c", late // DAY * DAY + DAY, C.key)
    assert keep(engine, B, later) == (B, later)


def test_two_keys_may_go_at_once(engine: sa.Engine) -> None:
    keep(engine, A, B, C)
    late = C.start + HORIZON
    read_to(engine, late)
    assert keep(engine, C) == (C,)


def test_a_partition_that_lags_needs_its_key(engine: sa.Engine) -> None:
    rotated(engine)
    late = B.start + 2 * HORIZON
    read_to(engine, late)
    retention.apply(engine, POLICY, late, late)
    with db.writing(engine) as connection:
        slow = sa.update(ownership).where(ownership.c.topic == "labels")
        connection.execute(slow.values(watermark=TODAY))
    assert 'the key "default" is missing' in refusal(engine, B)


def test_the_first_day_a_key_may_be_destroyed(engine: sa.Engine) -> None:
    keep(engine, A, B, C)
    with db.reading(engine) as connection:
        last = ends(read_marks(connection))
    assert last == {"default": B.start, "b": C.start}
    assert free_day(B.start, HORIZON) == B.start + HORIZON
    assert free_day(B.start, HORIZON + 1) == B.start + HORIZON + DAY


# The store's own key


def own_key(engine: sa.Engine) -> str | None:
    with db.reading(engine) as connection:
        value: str | None = connection.execute(
            sa.select(meta.c.value).where(meta.c.name == "id_key")
        ).scalar()
    return value


def test_without_a_key_the_store_makes_one_and_keeps_it(engine: sa.Engine) -> None:
    (own,) = keep(engine)
    assert keep(engine) == (own,) == IdKeys(engine).in_force([])
    assert own_key(engine) == own.key.hex()
    assert marks(engine) == [("store", BEGINNING)]
    read_to(engine, TODAY)
    assert keep(engine) == (own,)


def test_of_several_that_start_at_once_one_makes_it(engine: sa.Engine) -> None:
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: keep(engine), range(4)))
    assert len(set(made)) == 1


def test_an_unused_own_key_gives_way_at_once(engine: sa.Engine) -> None:
    keep(engine)
    assert keep(engine, A) == (A,)
    assert own_key(engine) is None


def test_a_store_with_its_own_key_takes_one_from_tomorrow_on(engine: sa.Engine) -> None:
    (own,) = keep(engine)
    read_to(engine, TODAY, hour=TODAY - HOUR)
    message = refusal(engine, A)
    assert message.startswith("privacy.id_key: this store was written with a key of its own")
    assert "from_day = 2024-10-05 or later" in message
    assert keep(engine, B) == (own, B)
    assert IdKeys(engine).in_force([B]) == (own, B)
    assert "settings are older" in refusal(engine)  # the way back is closed


def test_the_own_key_leaves_by_itself(engine: sa.Engine, url: str) -> None:
    (own,) = keep(engine)
    read_to(engine, TODAY, hour=TODAY)
    worker = IngestStore(engine, "decisions", SetClock(TODAY), None, keep(engine, B))
    for late in (B.start + HORIZON - 1, B.start + HORIZON):
        assert own_key(engine) == own.key.hex()
        read_to(engine, late)
        retention.apply(engine, POLICY, late, late)
    assert own_key(engine) is None
    assert marks(engine) == names(B)
    worker.claim([D0], "one")  # goes on: what the key was for is past
    assert keep(engine, B) == (B,)
    if url.startswith("sqlite"):
        engine.dispose()
        assert own.key.hex().encode() not in Path(url.removeprefix("sqlite:///")).read_bytes()


def test_a_store_with_a_key_of_the_settings_makes_none(engine: sa.Engine) -> None:
    keep(engine, A)
    read_to(engine, TODAY)
    assert refusal(engine).startswith("privacy.id_key: is not set, but this store")
    with pytest.raises(StoreError, match="is not set"):
        IdKeys(engine).in_force([])
    assert own_key(engine) is None


def test_a_store_that_was_never_started_has_no_key(engine: sa.Engine) -> None:
    with pytest.raises(StoreError, match="start the service first"):
        IdKeys(engine).in_force([A])


# Giving a key up


def waiting(engine: sa.Engine, at: int) -> None:
    """A label of a decision of that time waits, and is in the totals of its shard."""
    columns = ("id", "label", "complaint", "rank", "revision", "labelled_at", "ready", "blind")
    tallies = '{"messages": 1, "events": 1, "waiting": 1}'
    with db.writing(engine) as connection:
        connection.execute(
            sa.text(
                "INSERT INTO waiting_label (topic, part, hour, ts, "
                f"{', '.join(columns)}) VALUES ('labels', 0, :hour, :ts, 5, 1, 0, 0, 1, 0, 1, :no)"
            ),
            {"hour": at // HOUR, "ts": at, "no": False},
        )
        connection.execute(
            sa.update(ownership).where(ownership.c.topic == "labels").values(tallies=tallies)
        )


def label_tallies(engine: sa.Engine) -> Tallies:
    return next(s.tallies for s in read_statuses(engine) if s.shard == L0)


@pytest.mark.parametrize(
    ("given_up", "removed"), [("default", 1), ("b", 2), ("c", 0)], ids=["oldest", "middle", "next"]
)
def test_all_that_is_hashed_with_a_key_goes_with_it(
    engine: sa.Engine, given_up: str, removed: int
) -> None:
    keep(engine, A, B, C)
    read_to(engine, C.start - HOUR, hour=TODAY)
    for hour in (B.start, C.start - HOUR):
        read_to(engine, C.start - HOUR, hour=hour)
        labelled_twice(engine, hour)
    waiting(engine, B.start)
    before = epochs(engine)
    waited = int(given_up == "b")
    assert drop_key(engine, given_up) == {
        "pending": removed,
        "label_state": 0,
        "double_label": 2 * waited,
        "waiting_label": waited,
    }
    assert given_up not in dict(marks(engine))
    assert all(now > then for now, then in zip(epochs(engine), before, strict=True))
    tallies = label_tallies(engine)
    assert (tallies.waiting, tallies.balance) == (1 - waited, 0)
    assert tallies.unmatched == ({"forgotten": 1} if waited else {})
    left = [one for one in (A, B, C) if one.id != given_up]
    assert keep(engine, *left) == tuple(left)
    assert refusal(engine, A, B, C) if given_up != "c" else keep(engine, A, B, C)


def test_the_only_key_is_given_up(engine: sa.Engine) -> None:
    keep(engine, A)
    read_to(engine, TODAY, hour=TODAY)
    with pytest.raises(StoreError, match="it knows: default"):
        drop_key(engine, "b")
    assert drop_key(engine, "default")["pending"] == 1
    other = IdKey("x", BEGINNING, b"y" * 16)
    assert keep(engine, other) == (other,)


def test_the_own_key_is_given_up(engine: sa.Engine) -> None:
    (own,) = keep(engine)
    read_to(engine, TODAY)
    drop_key(engine, "store")
    assert own_key(engine) is None
    assert keep(engine) != (own,)

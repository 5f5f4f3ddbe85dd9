"""Frozen cohorts, detectors and crossings: what is read is what was written, by either database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s, PaneCounts, content_id
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.core.counts.completeness import CohortState
from monitor.core.metric import Metric
from monitor.core.time import DAY, HOUR, Grain, pane_of
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.errors import StoreError
from monitor.flushes import Dictionary
from monitor.store import database as db
from monitor.store import deltas
from monitor.store.codings import write_eras
from monitor.store.dictionary_rows import write_dictionary
from monitor.store.evaluator.pane_sums import add_counts
from monitor.store.evaluator.stored_detection import (
    FROZEN,
    CountedCohorts,
    Crossing,
    DetectionChange,
    FrozenCohort,
    StoredDetection,
    read_detection,
    write_detection,
)
from monitor.store.schema import cohort, crossing, detector, route_cohort
from monitor.store.upkeep import recode, retention
from monitor.store.upkeep.recode import drop_unlisted
from monitor.store.upkeep.retention_guard import RetentionPolicy

HOUR0 = 480_000
NOW = 17 * 365 * DAY
CONSUMED, INCOMPLETE, EXCLUDED = CohortState
CHAT = Stream(
    "replies", "channel", Metric.TPR, StreamKind.GAP, "channel=chat", COMPLEMENT,
    Direction.SLICE_WORSE, Fraction("0.10"),
)  # fmt: skip
FAX = replace(CHAT, slice="channel=fax")
BOTH = replace(CHAT, group_by="channel+tone", slice="channel=chat,tone=formal")


def random_counts(seed: int, cells: int = 200) -> Counts:
    """Of every counter, by ids as they are: any of 63 bits."""
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, (1 << 63) - 1, cells))
    return Counts(keys, rng.integers(-2, 5000, (len(keys), COUNTERS)))


def consumed(hour: int, seed: int = 0, *, live: bool = True) -> FrozenCohort:
    return FrozenCohort.from_counts(hour, random_counts(seed), live=live)


def crossed(number: int, stream: Stream = CHAT, hour: int = HOUR0) -> Crossing:
    at = (hour + 1) * HOUR
    return Crossing(number, stream.key, hour, True, at, at)


def write(engine: sa.Engine, change: DetectionChange) -> None:
    with db.writing(engine) as connection:
        write_detection(connection, change, NOW)


def read(engine: sa.Engine) -> StoredDetection:
    with db.reading(engine) as connection:
        return read_detection(connection)


def cohorts(engine: sa.Engine, first: int = 0, end: int = 1 << 40) -> list[FrozenCohort]:
    return CountedCohorts(engine).frozen(first, end)


def plain(one: FrozenCohort) -> tuple[Any, ...]:
    """A cohort as values that can be compared."""
    counts = one.counts
    return one.hour, one.state, one.live, counts.keys.tolist(), counts.values.tolist()


# Cohorts


def test_nothing_was_detected_yet(engine: sa.Engine) -> None:
    assert read(engine) == StoredDetection()
    assert read(engine).next_id == 1
    write(engine, DetectionChange())
    assert (read(engine), cohorts(engine)) == (StoredDetection(), [])


def test_cohorts_are_read_as_they_were_consumed(engine: sa.Engine) -> None:
    written = [
        consumed(HOUR0, 1),
        consumed(HOUR0 + 1, 2, live=False),
        FrozenCohort(HOUR0 + 2, INCOMPLETE, True),
        FrozenCohort(HOUR0 + 3, EXCLUDED, False),
        FrozenCohort(HOUR0 + 4, CONSUMED, True),
    ]
    write(engine, DetectionChange(cohorts=written[:2]))
    write(engine, DetectionChange(cohorts=written[2:]))
    assert list(map(plain, cohorts(engine))) == list(map(plain, written))
    some = cohorts(engine, HOUR0 + 1, HOUR0 + 3)
    assert list(map(plain, some)) == list(map(plain, written[1:3]))
    assert read(engine).consumed == HOUR0 + 4


def test_a_cohort_is_frozen_without_what_detectors_do_not_look_at() -> None:
    counts = random_counts(3)
    counts.values[5, FROZEN] = 0
    frozen = FrozenCohort.from_counts(HOUR0, counts, live=True).counts
    assert frozen.keys.tolist() == np.delete(counts.keys, 5).tolist()
    others = [counter for counter in Counter if counter not in FROZEN]
    assert not frozen.values[:, others].any()
    assert (frozen.values[:, FROZEN] == np.delete(counts.values, 5, axis=0)[:, FROZEN]).all()
    assert counts.values[:, others].any(), "what was given is not changed"


def test_a_cohort_is_frozen_from_the_counts_of_its_hour(engine: sa.Engine) -> None:
    hours = {hour: random_counts(hour) for hour in (HOUR0 - 1, HOUR0)}
    panes = [PaneCounts(int(Grain.HOUR), hour, counts) for hour, counts in hours.items()]
    panes.append(PaneCounts(int(Grain.DAY), HOUR0, random_counts(7)))
    with db.writing(engine) as connection:
        add_counts(connection, panes)
    (found,) = CountedCohorts(engine).counted([HOUR0], live=True)
    (nothing,) = CountedCohorts(engine).counted([HOUR0 + 1], live=False)
    both = CountedCohorts(engine).counted([HOUR0, HOUR0 + 1], live=False)
    assert list(map(plain, both)) == [(HOUR0, CONSUMED, False, *plain(found)[3:]), plain(nothing)]
    assert plain(found) == plain(FrozenCohort.from_counts(HOUR0, hours[HOUR0], live=True))
    assert plain(nothing) == (HOUR0 + 1, CONSUMED, False, [], [])
    write(engine, DetectionChange(cohorts=[found]))
    with db.writing(engine) as connection:
        add_counts(connection, panes)
    assert list(map(plain, cohorts(engine))) == [plain(found)], "later labels change nothing"


def test_requests_are_read_hour_by_hour_with_their_decisions(engine: sa.Engine) -> None:
    hours = {hour: random_counts(hour, 20) for hour in range(HOUR0, HOUR0 + 4)}
    hours[HOUR0].values[3, Counter.N] = 0
    panes = [PaneCounts(int(Grain.HOUR), hour, counts) for hour, counts in hours.items()]
    panes.append(PaneCounts(int(Grain.DAY), HOUR0 - 5, random_counts(7)))
    store = CountedCohorts(engine)
    assert store.first_counted() is None
    nothing = store.requests(0, HOUR0)
    assert [column.shape for column in nothing] == [(0,), (0,), (0, 2)]
    with db.writing(engine) as connection:
        add_counts(connection, panes)
    assert store.first_counted() == HOUR0
    found = store.requests(HOUR0, HOUR0 + 2)
    rows = [
        (hour, key, values[Counter.N], values[Counter.Q])
        for hour in (HOUR0, HOUR0 + 1)
        for key, values in zip(hours[hour].keys.tolist(), hours[hour].values.tolist(), strict=True)
        if values[Counter.N]
    ]
    assert [(*pair, *q) for *pair, q in zip(*(x.tolist() for x in found), strict=True)] == rows


def test_an_hour_has_its_turn_once(engine: sa.Engine) -> None:
    """Two that consumed it would have moved the detectors twice: nothing of the second is kept."""
    write(engine, DetectionChange(parts={"a": b"once"}, cohorts=[consumed(HOUR0, 1)]))
    before = read(engine), list(map(plain, cohorts(engine)))
    again = DetectionChange(
        parts={"a": b"twice"},
        cohorts=[consumed(HOUR0 + 1), consumed(HOUR0, 2)],
        opened=[crossed(1)],
    )
    with pytest.raises(StoreError):
        write(engine, again)
    assert (read(engine), list(map(plain, cohorts(engine)))) == before


# Detectors


def test_parts_are_replaced_one_by_one(engine: sa.Engine) -> None:
    everything = bytes(range(256)) * 5_000
    write(engine, DetectionChange(parts={"pages": everything, "tickets": b"", "advisory": b"1"}))
    assert read(engine).parts == {"pages": everything, "tickets": b"", "advisory": b"1"}
    write(engine, DetectionChange(parts={"tickets": b"2", "later": b"3"}, dropped={"advisory"}))
    assert read(engine).parts == {"pages": everything, "tickets": b"2", "later": b"3"}
    write(engine, DetectionChange(parts={"pages": b"4"}, dropped=["pages", "later", "never"]))
    assert read(engine).parts == {"pages": b"4", "tickets": b"2"}


# Crossings


def test_crossings_stand_until_they_are_resolved(engine: sa.Engine) -> None:
    chat, fax = crossed(1), replace(crossed(2, FAX), live=False)
    write(engine, DetectionChange(opened=[chat, fax]))
    assert read(engine).standing == {CHAT.key: chat, FAX.key: fax}
    later = (HOUR0 + 7) * HOUR
    write(engine, DetectionChange(refreshed={1: later}))
    assert read(engine).standing == {CHAT.key: replace(chat, latest=later), FAX.key: fax}
    write(engine, DetectionChange(resolved={1: later + DAY}))
    over = replace(chat, latest=later, resolved_at=later + DAY)
    assert read(engine).crossings == (over, fax)
    assert list(read(engine).standing) == [FAX.key]
    assert read(engine).next_id == 3


def test_a_stream_that_was_resolved_may_cross_again_in_the_same_cycle(engine: sa.Engine) -> None:
    write(engine, DetectionChange(opened=[crossed(1)]))
    short = replace(crossed(2, hour=HOUR0 + 40), resolved_at=(HOUR0 + 80) * HOUR)
    again = crossed(3, hour=HOUR0 + 90)
    write(engine, DetectionChange(resolved={1: (HOUR0 + 30) * HOUR}, opened=[short, again]))
    assert [one.id for one in read(engine).crossings] == [1, 2, 3]
    assert read(engine).standing == {CHAT.key: again}


@pytest.mark.parametrize("second", [crossed(1, FAX), crossed(2)], ids=["id", "stream"])
def test_a_stream_and_an_id_stand_once(engine: sa.Engine, second: Crossing) -> None:
    write(engine, DetectionChange(opened=[crossed(1)]))
    with pytest.raises(StoreError):
        write(engine, DetectionChange(parts={"pages": b"1"}, opened=[second]))
    assert read(engine) == StoredDetection(crossings=(crossed(1),))


# Retention


POLICY = RetentionPolicy(
    horizon=3 * DAY, aggregates=60 * DAY, dead_letters=DAY, snapshots=DAY, dedupe_window=0
)


def test_cohorts_go_with_the_counts_of_their_hour(engine: sa.Engine) -> None:
    edge = pane_of(NOW - 11 * DAY, Grain.HOUR)
    hours = [edge - 900, edge - 1, edge, edge + 1]
    write(engine, DetectionChange(cohorts=[FrozenCohort(h, INCOMPLETE, True) for h in hours]))
    retention.apply(engine, POLICY, NOW, NOW)
    assert [one.hour for one in cohorts(engine)] == [edge, edge + 1]
    retention.apply(engine, POLICY, NOW + 900 * DAY, NOW)
    assert read(engine).consumed == edge + 1, "after which hour the next one comes stays known"


def test_crossings_go_long_after_they_were_resolved(engine: sa.Engine) -> None:
    edge = NOW - 60 * DAY
    ends = [edge - 1, None, edge, edge - 5 * DAY]
    streams = [replace(CHAT, contract=f"number-{number}") for number in range(4)]
    opened = [
        replace(crossed(number, stream), resolved_at=end)
        for number, (stream, end) in enumerate(zip(streams, ends, strict=True), 1)
    ]
    write(engine, DetectionChange(parts={"pages": b"1"}, opened=opened))
    retention.apply(engine, POLICY, NOW, NOW)
    assert [one.id for one in read(engine).crossings] == [2, 3, 4]
    assert read(engine).next_id == 5, "the newest stays: no id is given twice"
    assert read(engine).parts == {"pages": b"1"}


# Removal


FULL = Coding((Attribute("channel", ("chat", "fax")), Attribute("tone", ("formal",))))
FEWER = Coding((Attribute("channel", ("chat",)),))
STRATUM = 8192


def site(engine: sa.Engine, counts: Mapping[str, int]) -> Counts:
    """A store that knows these atoms; counts of each in one cell."""
    atoms = {content_id(text): text for text in counts}
    cells = {cell_of(text): (content_id(text), 1, STRATUM) for text in counts}
    with db.writing(engine) as connection:
        write_eras(connection, CodingHistory.always(FULL))
        write_dictionary(connection, Dictionary(atoms, {1: "judge=1"}, cells))
    keys = np.array([cell_of(text) for text in counts], np.int64)
    return Counts.from_rows(keys, np.stack([row(n) for n in counts.values()]))


def cell_of(text: str) -> int:
    return content_id(f"{content_id(text)}/1/{STRATUM}")


def row(decisions: int) -> Int64s:
    values = np.zeros(COUNTERS, np.int64)
    values[Counter.N], values[Counter.Q] = decisions, decisions // 2
    return values


def test_what_is_listed_no_more_is_in_no_frozen_cohort(engine: sa.Engine) -> None:
    counts = site(engine, {
        "channel=chat,tone=formal": 10, "channel=fax,tone=formal": 20, "channel=chat": 40,
        "channel=fax,tone=__other__": 80,
    })  # fmt: skip
    frozen = [FrozenCohort.from_counts(HOUR0 + i, counts, live=True) for i in range(2)]
    untouched = FrozenCohort(HOUR0 + 2, INCOMPLETE, False)
    closed = [FrozenCohort.from_counts(HOUR0 + 9, counts, live=True)]
    write(engine, DetectionChange(cohorts=[*frozen, untouched], closed=closed))
    assert drop_unlisted(engine, FEWER) == ("channel=fax", "tone")
    left = cohorts(engine)
    assert [one.hour for one in left] == [HOUR0, HOUR0 + 1, HOUR0 + 2]
    for one in (*left[:2], *CountedCohorts(engine).frozen(HOUR0 + 9, HOUR0 + 10, labels=False)):
        found = dict(zip(one.counts.keys.tolist(), one.counts.values.tolist(), strict=True))
        assert found == {
            cell_of("channel=chat"): row(50).tolist(),
            cell_of("channel=__other__"): row(100).tolist(),
        }
        assert (np.diff(one.counts.keys) > 0).all()
    assert plain(left[2]) == plain(untouched)


def test_what_is_listed_no_more_is_named_by_no_detector(engine: sa.Engine) -> None:
    """That there were pages stays known; not of whom."""
    site(engine, {"channel=fax": 1})
    against_fax = replace(CHAT, reference="channel=fax")
    streams = [CHAT, FAX, BOTH, against_fax]
    opened = [crossed(number, stream) for number, stream in enumerate(streams, 1)]
    opened[2] = replace(opened[2], resolved_at=NOW)
    write(engine, DetectionChange(parts={"pages": b"channel=fax"}, opened=opened))
    drop_unlisted(engine, FEWER)
    stored = read(engine)
    assert stored.standing == {CHAT.key: opened[0]}
    assert list(stored.crossings[1:]) == [
        replace(one, stream="", resolved_at=one.resolved_at or one.latest) for one in opened[1:]
    ]
    assert stored.parts == {}
    assert drop_unlisted(engine, replace(FEWER, attributes=())) == ("channel",)
    assert {one.stream for one in read(engine).crossings} == {""}


def test_where_nothing_is_removed_detectors_go_on(engine: sa.Engine) -> None:
    site(engine, {"channel=chat": 1})
    write(engine, DetectionChange(parts={"pages": b"1"}, opened=[crossed(1)]))
    assert drop_unlisted(engine, FULL) == ()
    assert read(engine) == StoredDetection({"pages": b"1"}, None, (crossed(1),))


def test_what_retention_deletes_meanwhile_is_not_recoded(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = site(engine, {"channel=fax": 1})
    hours = [HOUR0, HOUR0 + 1]
    write(
        engine,
        DetectionChange(cohorts=[FrozenCohort.from_counts(h, counts, live=True) for h in hours]),
    )
    real = deltas.decode
    with db.writing(engine) as connection:

        def decoded(body: bytes) -> deltas.Payload:
            connection.execute(sa.delete(cohort).where(cohort.c.hour == HOUR0 + 1))
            return real(body)

        monkeypatch.setattr(deltas, "decode", decoded)
        recode._recode_cohorts(connection, cohort, {cell_of("channel=fax"): 5})
    monkeypatch.undo()
    (left,) = cohorts(engine)
    assert (left.hour, left.counts.keys.tolist()) == (HOUR0, [5])


def test_all_of_detection_is_in_four_tables(engine: sa.Engine) -> None:
    cohorts, closed = [consumed(HOUR0)], [consumed(HOUR0 + 1)]
    change = DetectionChange({"pages": b"1"}, (), cohorts, closed, opened=[crossed(1)])
    write(engine, change)
    assert (read(engine).consumed, read(engine).closed) == (HOUR0, HOUR0 + 1)
    with db.reading(engine) as connection:
        for table in (cohort, route_cohort, detector, crossing):
            assert len(connection.execute(sa.select(table)).all()) == 1
        at = connection.execute(sa.select(cohort.c.consumed_at)).scalar_one()
    assert at == NOW

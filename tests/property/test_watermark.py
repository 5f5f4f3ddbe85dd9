"""What holds the watermark, retention and the label frontier back, what does not, and who is told.

Everything runs in one thread over a memory broker; time is moved by hand.
"""

from __future__ import annotations

import logging
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import lesson
import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline import (
    DECISIONS,
    ID_KEY,
    LABELS,
    ManualClock,
    Pipeline,
    Seen,
    attributes_in,
    flushed_by,
    messages,
    total,
)

from consumers.backpressure import HELD_SECONDS
from consumers.dead_letters import DeadLetterBreaker
from consumers.ingest import Ingest
from monitor.core.counts.cells import Int64s, Route, Stratum
from monitor.core.publish.snapshot import Snapshot, decode
from monitor.core.time import DAY, HOUR, MINUTE, Grain, pane_of, pane_start, to_micros
from monitor.errors import PoisonedStreamError, StoreError
from monitor.evaluate import evaluator as evaluator_module
from monitor.evaluate.cohorts import CohortColumns, Cohorts
from monitor.records import Shard
from monitor.shard_status import Tallies
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.ingest.ingest_store import IngestStore

RULES = oracle.Rules(attributes_in(), ID_KEY.encode())
MIDNIGHT = lesson.START.replace(hour=0, minute=0)
T0 = to_micros(MIDNIGHT)
LATENESS = 10 * MINUTE
D0, D1, L0, L1 = (Shard(topic, part) for topic in (DECISIONS, LABELS) for part in (0, 1))

Event = dict[str, Any]


def decision(key: str, hours: float, score: float = 0.8, **more: object) -> Event:
    attributes = {"channel": "chat", "language_variety": "formal"}
    at = MIDNIGHT + timedelta(hours=hours)
    return lesson.decision(key, at, score, attributes=attributes, **more)


def label(decided: Event, **more: object) -> Event:
    at = oracle.instant(decided["decided_at"])
    return lesson.label(decided["decision_id"], at, ready=True, **more)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "slicewatch")


def produce(pipeline: Pipeline, shard: Shard, *events: Event) -> None:
    pipeline.broker.produce(shard.topic, messages(events), shard.partition)


def run(pipeline: Pipeline, seconds: float) -> None:
    """Let every worker turn for a while."""
    for _ in range(int(seconds / 0.5)):
        for worker in pipeline.workers:
            pipeline.step(worker, 0.5 / len(pipeline.workers))


def watermark(pipeline: Pipeline) -> int | None:
    return EvaluatorStore(pipeline.engine, DECISIONS).deltas.watermark()


def slowest(pipeline: Pipeline) -> int | None:
    return RecordStore(pipeline.engine).slowest_event_time()


def snapshot(pipeline: Pipeline) -> Snapshot:
    return decode(pipeline.snapshot() or b"")


# The watermark


@pytest.mark.parametrize("clock", ["history", "live"])
def test_an_empty_partition_holds_nothing_back_once_it_is_known_to_be_empty(
    tmp_path: Path, clock: str
) -> None:
    with Pipeline(tmp_path, (2, 1), stream__clock=clock) as pipeline:
        worker = pipeline.worker()
        produce(pipeline, D0, decision("a", 1), decision("b", 5))
        run(pipeline, 3)
        # What begins history waits for what follows it, and is believed when nothing does.
        assert [s.next_offset for s in pipeline.statuses()] == [2 if clock == "live" else 0, 0, 0]
        assert watermark(pipeline) is None  # nobody has looked yet
        run(pipeline, 12 if clock == "live" else 24)
        assert watermark(pipeline) == T0 + 5 * HOUR - LATENESS
        pipeline.fold()
        assert snapshot(pipeline).watermark == T0 + 4 * HOUR, "the newest whole hour"
        produce(pipeline, D0, decision("c", 9))
        run(pipeline, 12)
        assert watermark(pipeline) == T0 + 9 * HOUR - LATENESS
        assert worker.health.store_ok


def test_partitions_nobody_reads_hold_everything_back(tmp_path: Path) -> None:
    with Pipeline(tmp_path, (2, 1)) as pipeline:
        worker = pipeline.worker()
        produce(pipeline, D0, decision("a", 1))
        produce(pipeline, D1, decision("b", 1))
        pipeline.step(worker)
        worker.source.pause([D1])
        run(pipeline, 30)
        assert watermark(pipeline) is None


@pytest.mark.parametrize("clock", ["history", "live"])
def test_an_empty_partition_that_is_claimed_with_a_backlog_holds_back_again(
    tmp_path: Path, clock: str
) -> None:
    """Its owner goes away, and it fills: labels of what nobody has read are not given up."""
    early = decision("early", 1)
    with Pipeline(tmp_path, (2, 1), stream__clock=clock) as pipeline:
        first = pipeline.worker()
        produce(pipeline, D0, decision("a", 0), decision("b", 2))
        run(pipeline, 15 if clock == "live" else 25)
        assert watermark(pipeline) == T0 + 2 * HOUR - LATENESS
        pipeline.kill(first)
        produce(pipeline, D1, early)
        produce(pipeline, D0, decision("c", 40))
        produce(pipeline, L0, label(early))
        second = pipeline.worker()
        pipeline.step(second)  # assigned and claimed, nothing read
        second.source.pause([D1])
        held = watermark(pipeline)
        assert held is None or held <= T0 + 2 * HOUR
        run(pipeline, 30 + int(HELD_SECONDS))
        assert watermark(pipeline) == held
        assert total(pipeline.statuses(), LABELS, "waiting") == 1
        second.source.resume([D1])
        pipeline.drain()
        assert total(pipeline.statuses(), LABELS, "unmatched") == 0
        assert total(pipeline.statuses(), LABELS, "counted") == 1
        pipeline.check_conservation()
        if clock == "history":
            assert watermark(pipeline) == T0 + HOUR - LATENESS
        else:
            run(pipeline, 12)
            assert watermark(pipeline) == T0 + 40 * HOUR - LATENESS


# Retention


def test_retention_waits_until_every_shard_of_both_topics_has_begun(tmp_path: Path) -> None:
    with Pipeline(tmp_path, (2, 2)) as pipeline:
        worker = pipeline.worker()
        assert slowest(pipeline) is None
        produce(pipeline, D0, decision("a", 90))
        produce(pipeline, D1, decision("b", 80))
        run(pipeline, 3)
        assert slowest(pipeline) is None
        produce(pipeline, L0, label(decision("a", 70)))
        produce(pipeline, L1, label(decision("b", 60)))
        worker.source.pause([L1])
        run(pipeline, 30)
        assert watermark(pipeline) == T0 + 80 * HOUR - LATENESS
        assert slowest(pipeline) is None
        worker.source.resume([L1])
        run(pipeline, 25)
        assert slowest(pipeline) == T0 + 60 * HOUR - LATENESS


@pytest.mark.parametrize("partitions", [1, 2])
def test_an_idle_label_partition_pins_nothing_under_the_live_clock(
    tmp_path: Path, partitions: int
) -> None:
    with Pipeline(tmp_path, (1, partitions), stream__clock="live") as pipeline:
        worker = pipeline.worker()
        produce(pipeline, D0, decision("a", 0))
        produce(pipeline, L0, label(decision("a", 0)))
        run(pipeline, 15)
        produce(pipeline, D0, decision("b", 100))
        run(pipeline, 15)
        assert slowest(pipeline) == watermark(pipeline) == T0 + 100 * HOUR - LATENESS
        # One that lags is waited for.
        worker.source.pause([L0])
        produce(pipeline, L0, label(decision("b", 100)))
        produce(pipeline, D0, decision("c", 200))
        run(pipeline, 30)
        assert watermark(pipeline) == T0 + 200 * HOUR - LATENESS
        assert slowest(pipeline) == T0 + 100 * HOUR - LATENESS


# Partitions that are added


def add_partition(pipeline: Pipeline, topic: str) -> None:
    pipeline.broker.add_partition(topic)
    pipeline.broker.rebalance("slicewatch")


@pytest.mark.parametrize("clock", ["history", "live"])
def test_partitions_added_while_running_are_claimed_and_counted(tmp_path: Path, clock: str) -> None:
    events = [decision(f"d{i}", i) for i in range(12)]
    with Pipeline(tmp_path, stream__clock=clock) as pipeline:
        worker, evaluator = pipeline.worker(), pipeline.evaluator()
        produce(pipeline, D0, *events[:6])
        pipeline.drain()
        assert evaluator.cycle()
        for topic in (DECISIONS, LABELS):
            add_partition(pipeline, topic)
        produce(pipeline, D1, *events[6:])
        produce(pipeline, L1, *map(label, events))
        run(pipeline, 15)
        assert evaluator.cycle()
        assert [s.shard for s in pipeline.statuses()] == [D0, D1, L0, L1]
        pipeline.check_conservation()
        expected = oracle.count(RULES, events, list(map(label, events)))
        pipeline.check_counts(expected.counts)
        assert pipeline.seen.failures == 0
        assert worker.health.store_ok
        newest = 5 if clock == "history" else 11
        assert watermark(pipeline) == T0 + newest * HOUR - LATENESS


def test_a_shard_nobody_registered_can_be_claimed(tmp_path: Path) -> None:
    with Pipeline(tmp_path) as pipeline:
        (claim,) = pipeline.store.claim([Shard(DECISIONS, 7)], "someone")
        assert (claim.epoch, claim.next_offset) == (1, None)
        assert [s.shard for s in pipeline.statuses()] == [Shard(DECISIONS, 7)]


# Poison


FEW_EVENTS = {"consumers.ingest.DEAD_LETTER_MIN_EVENTS": 50}


def _label_noise(number: int, **more: object) -> list[Event]:
    return [label(decision(f"d{i}", i / 60)) | more for i in range(number)]


@pytest.mark.parametrize("clock", ["history", "live"])
def test_a_small_topic_that_is_all_unreadable_is_noticed(tmp_path: Path, clock: str) -> None:
    """Pooled with twenty times as many good decisions, 5 % would be an ordinary day."""
    options: dict[str, Any] = {"stream__clock": clock, "constants": FEW_EVENTS}
    with Pipeline(tmp_path, max_records=60, **options) as pipeline:
        pipeline.worker()
        noise = _label_noise(80, version=0) + _label_noise(20, ready="yes")
        for turn in range(20):
            good = [decision(f"{turn}-{i}", turn / 10) for i in range(100)]
            pipeline.broker.produce(DECISIONS, messages(good, [10] * 10))
        pipeline.broker.produce(LABELS, messages(noise))
        with pytest.raises(PoisonedStreamError, match="topic labels") as raised:
            pipeline.drain()
        assert "mostly invalid_value in version" in str(raised.value)
        assert "\n" not in str(raised.value)


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_healthy_mixed_stream_is_never_stopped(seed: int) -> None:
    pick = random.Random(seed)
    options: dict[str, Any] = {"constants": FEW_EVENTS}
    with folder() as path, Pipeline(path, (2, 2), pick.choice((7, 300)), **options) as pipeline:
        pipeline.worker()
        events = [decision(f"d{i}", i / 60) for i in range(300)]
        labels = [label(e) | ({"kind": "x"} if pick.random() < 0.5 else {}) for e in events]
        events = [e | ({"route": "x"} if pick.random() < 0.3 else {}) for e in events]
        pipeline.broker.produce(DECISIONS, messages(events, [pick.randint(1, 40) for _ in "abcde"]))
        pipeline.broker.produce(LABELS, messages(labels, [pick.randint(1, 40) for _ in "abcde"]))
        pipeline.drain()
        pipeline.check_conservation()


def test_the_usual_reason_is_the_present_one() -> None:
    watch = DeadLetterBreaker(0.9, 100)
    watch.record(L0, 100, Counter({("malformed_json", ""): 80}))
    watch.record(D0, 5000, Counter())
    watch.record(L0, 60, Counter({("invalid_value", "x"): 60}))
    watch.record(D0, 5000, Counter())
    with pytest.raises(PoisonedStreamError, match=r"98% of the last 100 .* invalid_value in x"):
        watch.record(L1, 40, Counter({("malformed_json", ""): 38}))


@given(st.lists(st.tuples(st.sampled_from([D0, L0]), st.integers(1, 50), st.floats(0, 0.9))))
def test_no_batch_of_which_a_tenth_is_good_is_poison(
    batches: Sequence[tuple[Shard, int, float]],
) -> None:
    watch = DeadLetterBreaker(0.9, 20)
    for shard, events, share in batches:
        watch.record(shard, events, Counter({("x", ""): int(events * share)}))


# The evaluator, with and without a watermark


def _story(path: Path, restarts: Sequence[int], **options: Any) -> list[bytes | None]:
    """Snapshots after each chapter, the evaluator being restarted after some of them.

    A new partition makes the watermark unknown for a while. Half of the cohorts are immature,
    so the frontier is not simply the watermark.
    """
    said: list[bytes | None] = []
    with Pipeline(path, constants=flushed_by(5), max_records=5, **options) as pipeline:
        evaluator = pipeline.evaluator()
        pipeline.worker()

        def read(hours: tuple[int, int], shard: Shard, labels: bool) -> None:
            events = [decision(f"d{hour}", hour) for hour in range(*hours)]
            produce(pipeline, shard, *events)
            produce(pipeline, L0, *(map(label, events) if labels else ()))
            pipeline.drain()

        def evaluate() -> None:
            nonlocal evaluator
            assert evaluator.cycle()
            said.append(pipeline.snapshot())
            if len(said) in restarts:
                evaluator.release_lease()
                evaluator = pipeline.evaluator()

        read((0, 24), D0, labels=True)
        evaluate()
        read((24, 72), D0, labels=False)
        evaluate()
        pipeline.store.register([D1])
        assert watermark(pipeline) is None
        evaluate()
        events = [decision(f"d{hour}", hour) for hour in range(30, 40)]
        produce(pipeline, L0, *map(label, events))
        run(pipeline, 5)
        evaluate()
        add_partition(pipeline, DECISIONS)
        read((80, 90), D1, labels=True)
        assert watermark(pipeline) is not None
        evaluate()
    return said


def test_an_evaluator_restarted_without_a_watermark_says_the_same() -> None:
    with folder() as path:
        never = _story(path, [])
    shown = [decode(one or b"") for one in never]
    assert shown[1] == shown[2] == shown[3]  # nothing new is promised meanwhile
    last = shown[-1]
    assert last.watermark == T0 + 70 * HOUR
    assert last.frontier is not None
    assert last.frontier < last.watermark
    for restarts in ([1], [2], [3], [4], [1, 2, 3, 4]):
        with folder() as path:
            assert _story(path, restarts) == never, restarts


@pytest.mark.parametrize(
    "batch", [pytest.param(1, marks=pytest.mark.full), 2, pytest.param(3, marks=pytest.mark.full)]
)
def test_a_catch_up_that_ends_on_a_full_batch_renders_anew(
    monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    with folder() as path:
        at_once = _story(path, [])
    monkeypatch.setattr(evaluator_module, "MAX_DELTAS", batch)
    for restarts in ([], [3], [4]):
        with folder() as path:
            assert _story(path, restarts) == at_once


# The label frontier


def _audited_by_day(hours: int) -> tuple[list[Event], list[Event]]:
    """Every hour one review, whose label comes; from 8 to 18 three audits."""
    reviews = [decision(f"r{hour}", hour, 0.6) for hour in range(hours)]
    audits = [
        decision(f"a{hour}-{i}", hour + i / 10, audit_p=0.25)
        for hour in range(hours)
        for i in range(3)
        if 8 <= hour % 24 < 18
    ]
    return reviews, audits


def _by_time(events: Sequence[Event]) -> list[Event]:
    return sorted(events, key=lambda e: str(e["decided_at"]))


def test_the_frontier_does_not_leap_over_the_nights(tmp_path: Path) -> None:
    reviews, audits = _audited_by_day(5 * 24)
    with Pipeline(tmp_path, stream__horizon="72h") as pipeline:
        pipeline.worker()
        evaluator = pipeline.evaluator()
        for hours in range(6, 5 * 24 + 1, 6):
            until = lesson.text(MIDNIGHT + timedelta(hours=hours))
            since = lesson.text(MIDNIGHT + timedelta(hours=hours - 6))
            part = [e for e in (*reviews, *audits) if since <= e["decided_at"] < until]
            produce(pipeline, D0, *_by_time(part))
            produce(pipeline, L0, *(label(e) for e in part if e in reviews))
            pipeline.drain()
            assert evaluator.cycle()
            shown = snapshot(pipeline)
            assert shown.watermark is not None
            passed = pane_of(shown.watermark - 48 * HOUR, Grain.HOUR)  # twice a day
            hour = pane_of(shown.watermark, Grain.HOUR)
            first = min(pane_of(T0, Grain.HOUR) + 8, hour)  # up to here no audit is missing
            assert shown.frontier == pane_start(max(first, passed), Grain.HOUR)
        produce(pipeline, L0, *(label(e, reason="audit") for e in audits))
        pipeline.drain()
        assert evaluator.cycle()
        assert snapshot(pipeline).frontier == pane_start(hour, Grain.HOUR)


@given(
    st.integers(0, 23), st.integers(1, 12), st.integers(1, 5), st.integers(1, 60), st.integers(2, 6)
)
def test_audits_of_any_hours_of_the_day_are_waited_for(
    opens: int, hours: int, each: int, reviews: int, days: int
) -> None:
    """None returned: nothing after the first of them is mature. All returned: everything is."""
    audit = Stratum(Route.AUTO_SERVE, 1, 2).code
    review = Stratum(Route.HUMAN_REVIEW, 0, 0).code
    day = [hour for d in range(days) for hour in range(24 * d + opens, 24 * d + opens + hours)]
    asked = [(hour, audit, each) for hour in day if hour < 24 * days]
    cohorts = Cohorts()
    cohorts.add(*_columns([(hour, review, reviews) for hour in range(24 * days)], returned=True))
    cohorts.add(*_columns(asked, returned=False))
    mark, late = 24 * days * HOUR + 30 * MINUTE, Fraction(19, 20)
    assert cohorts.frontier(mark, 40 * DAY, late) == opens * HOUR
    assert cohorts.frontier(mark, 24 * HOUR, late) == max(opens, 24 * (days - 1)) * HOUR
    cohorts.add(*_columns([(hour, audit, 0) for hour, _, _ in asked], received=each))
    assert cohorts.frontier(mark, 40 * DAY, late) == 24 * days * HOUR


def _columns(
    rows: Sequence[tuple[int, int, int]], *, returned: bool = False, received: int = 0
) -> tuple[Int64s, Int64s, CohortColumns]:
    hours, strata, asked = np.array(rows, np.int64).reshape(-1, 3).T
    delays = np.zeros((len(rows), 8), np.int64)
    return hours, strata, CohortColumns(asked, asked * returned + received, delays)


# Who is told


@dataclass
class Told(Seen):
    """Also keeps when each shard's lag was told, and what it was."""

    clock: ManualClock = field(default_factory=ManualClock)
    lags: dict[Shard, list[tuple[float, int | None, float | None]]] = field(default_factory=dict)

    def set_shard(
        self,
        shard: Shard,
        tallies: Tallies,
        lag_messages: int | None,
        lag_seconds: float | None,
        *,
        offsets: int | None,
    ) -> None:
        assert offsets is not None
        assert offsets == tallies.messages + tallies.gaps
        super().set_shard(shard, tallies, lag_messages, lag_seconds, offsets=offsets)
        self.lags.setdefault(shard, []).append((self.clock.seconds, lag_messages, lag_seconds))

    def longest_silence(self, shard: Shard, since: float) -> float:
        moments = [since, *(at for at, *_ in self.lags[shard] if at > since), self.clock.seconds]
        return max(after - before for before, after in pairwise(moments))

    def last(self, shard: Shard) -> tuple[int | None, float | None]:
        return self.lags[shard][-1][1:]


class Away:
    """A store that can be switched off."""

    def __init__(self, store: IngestStore) -> None:
        self._store = store
        self.away = False

    def __getattr__(self, name: str) -> Any:
        if self.away:
            raise StoreError("gone")
        return getattr(self._store, name)


SHARDS = (D0, D1, L0)


@contextmanager
def told(path: Path, **options: Any) -> Iterator[tuple[Pipeline, Told, Away, Ingest]]:
    with Pipeline(path, (2, 1), **options) as pipeline:
        pipeline.clock.seconds = 2e9  # after the events, so that none is too early
        pipeline.seen = seen = Told(clock=pipeline.clock)
        store = Away(pipeline.store)
        yield pipeline, seen, store, pipeline.worker(store)


def send(pipeline: Pipeline, key: str, age: float = 60.0) -> None:
    """One event for every shard, stamped by the broker some seconds ago."""
    stamp = int((pipeline.clock.seconds - age) * 1000)
    for shard in SHARDS:
        event = decision(f"{key}-{shard.partition}", len(key))
        events = messages([event if shard.topic == DECISIONS else label(event)])
        pipeline.broker.produce(shard.topic, events, shard.partition, [stamp])


@pytest.mark.parametrize("clock", ["history", "live"])
def test_silence_is_told_as_caught_up(tmp_path: Path, clock: str) -> None:
    with told(tmp_path, stream__clock=clock) as (pipeline, seen, _, _worker):
        run(pipeline, 3)
        since = pipeline.clock.seconds
        run(pipeline, 30)
        send(pipeline, "x")
        for shard in (D0, L0):  # control records at the end are nothing to wait for
            pipeline.broker.skip(shard, 2)
        run(pipeline, 30)
        for shard in SHARDS:
            assert seen.longest_silence(shard, since) <= 6
            assert seen.last(shard) == (0, 0.0)


def test_lag_grows_while_the_store_is_away(tmp_path: Path) -> None:
    """What cannot be stored is not consumed: the lag says so, and never freezes."""
    with told(tmp_path) as (pipeline, seen, store, worker):
        send(pipeline, "a")
        run(pipeline, 25)  # the first event of history waits for what follows it
        since, store.away = pipeline.clock.seconds, True
        for number in range(1, 5):
            send(pipeline, "b" * number)
            run(pipeline, 15)
            for shard in SHARDS:
                messages_behind, seconds = seen.last(shard)
                assert messages_behind == number
                assert seconds is not None
                assert seconds >= 60 + 15 * (number - 1)
        assert seen.failures
        assert not worker.health.store_ok
        for shard in SHARDS:
            assert seen.longest_silence(shard, since) <= 6
        store.away = False
        run(pipeline, 15)
        assert [seen.last(shard) for shard in SHARDS] == [(0, 0.0)] * 3
        pipeline.check_conservation()
        assert total(pipeline.statuses(), DECISIONS, "counted") == 10


def test_a_shard_that_was_taken_away_is_told_of_no_more(tmp_path: Path) -> None:
    """Also while the store is away: its lag is its next owner's."""
    with told(tmp_path) as (pipeline, seen, store, worker):
        send(pipeline, "a")
        run(pipeline, 5)
        store.away = True
        send(pipeline, "b")
        run(pipeline, 15)
        other = pipeline.worker()
        run(pipeline, 1)
        theirs = [s for s in SHARDS if pipeline.broker.owner("slicewatch", s)[0] is other.source]  # type: ignore[index]
        assert theirs
        pipeline.workers.remove(other)
        before = {shard: len(seen.lags[shard]) for shard in SHARDS}
        run(pipeline, 15)
        assert worker in pipeline.workers
        for shard in SHARDS:
            assert (len(seen.lags[shard]) == before[shard]) == (shard in theirs)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_offsets_told_are_messages_and_gaps(seed: int) -> None:
    """Whatever fails in between; :class:`Told` compares them every time."""
    pick = random.Random(seed)
    with folder() as path, told(path, max_records=3) as (pipeline, seen, store, _):
        for turn in range(60):
            if pick.random() < 0.3:
                send(pipeline, f"{turn}"[-2:] * 2, 0.0)
            if pick.random() < 0.2:
                pipeline.broker.skip(pick.choice(SHARDS), pick.randint(1, 3))
            if pick.random() < 0.1:
                pipeline.broker.produce(DECISIONS, [b"{", None], 0)
            store.away = pick.random() < 0.2
            run(pipeline, pick.choice((0.5, 2.5, 6)))
        store.away = False
        run(pipeline, 20)
        pipeline.check_conservation()
        assert [seen.last(shard) for shard in SHARDS] == [(0, 0.0)] * 3

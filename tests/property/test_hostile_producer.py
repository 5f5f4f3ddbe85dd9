"""Whatever one producer's partition sends, the others' counts, totals and time stay their own.

Every history is run twice: with the hostile partition, and with that partition empty. What the
hostile one counts itself has versions of its own, so its cells can be told from the others'.

Left out, since it is by design: decisions of the same id and hour that ask for a label (an id
belongs to whoever stored it first), and valid labels of the others' decisions.
"""

from __future__ import annotations

import json
import logging
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hostile_events
import lesson
import pytest
import sqlalchemy as sa
from example_counts import examples
from histories import Histories, shuffled
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pipeline import DECISIONS, LABELS, Counted, Pipeline, messages, only_kept

from monitor.composition.store import retention_policy
from monitor.core.counts.cells import OTHER
from monitor.core.time import HOUR, MINUTE
from monitor.records import Shard
from monitor.shard_status import ShardStatus
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.upkeep import retention

Event = dict[str, Any]
Sent = tuple[bytes | None, int]
"""A message, and the timestamp of its record (milliseconds)."""

OWN = "hx"
"""The judge of all that the hostile partition says."""
VERSIONS = {"judge": OWN, "rubric": "r1", "policy": "p1", "router": "t1"}
LATENESS = 10 * MINUTE
READING = 5 * MINUTE
"""How far apart the wall clocks of two runs are, at most, when they read the same message."""
ROUNDS = 4
YEARS = (1970, 1999, 2000, 2001, 2025, 2027, 2038, 2099, 2150, 2262, 9999)
STAMPS = (-1, -1, -1, 0, 1, 2**53, 2**62, 2**63 - 1, -(2**63))
NUMBERS = (b"NaN", b"-1", b"1e308", b"1e400", b"9223372036854775808", b"-9223372036854775808",
           b"5e-324", b"-0.0", b"1.0000000000000002", b"9" * 400)  # fmt: skip
GARBAGE = (None, b"", b"\x00", b"\xff" * 99, b"[]", b"[[]]", b"{}", b"null", b"[" * 50_000,
           b"[" + b"{}," * 300 + b"{}]", b'"' + b"x" * 1_000_000 + b'"',
           b"[" + b"0," * 10_001 + b"0]")  # fmt: skip


def trying(number: int) -> settings:
    return settings(
        max_examples=examples(number, fewest=2),
        deadline=None,
        derandomize=os.environ.get("CI") == "true",  # the gate looks at the same ones every time
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink would take an hour
    )


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "slicewatch")


# What the hostile one sends


class Hostile:
    """Makes messages of one topic, beside what the others say."""

    def __init__(self, pick: random.Random, topic: str, others: Histories) -> None:
        self.pick = pick
        self.topic = topic
        self.others = others
        self._number = 0

    def messages(self, until: datetime) -> list[Sent]:
        """Some messages; ``until`` is how far the others are."""
        menu: Sequence[Callable[[datetime], list[bytes | None]]] = (
            self._dated, self._fast, self._leaping, self._spoiled, self._garbage, self._copies,
            self._array,
        )  # fmt: skip
        out: list[bytes | None] = []
        for _ in range(self.pick.randint(0, 8)):
            out += self.pick.choice(menu)(until)
        return [(one, self.pick.choice(STAMPS)) for one in out]

    def event(self, at: datetime, **more: object) -> Event:
        """A valid event of its own."""
        self._number += 1
        key = f"hostile-{self._number}"
        if self.topic == LABELS:
            return lesson.label(key, min(at, LAST_LABELLED), ready=True, **more)
        return lesson.decision(key, at, 0.8, versions=VERSIONS, **more)

    def _dated(self, until: datetime) -> list[bytes | None]:
        at = datetime(self.pick.choice(YEARS), 1, 1, tzinfo=UTC)
        return _encoded(
            [self.event(at + timedelta(hours=i)) for i in range(self.pick.choice((1, 3)))]
        )

    def _fast(self, until: datetime) -> list[bytes | None]:
        ahead = timedelta(minutes=self.pick.choice((4, 5, 6, 60, 600, 23 * 60)))
        return _encoded([self.event(until + ahead) for _ in range(self.pick.choice((1, 30)))])

    def _leaping(self, until: datetime) -> list[bytes | None]:
        """So many of a far time that they believe each other."""
        at = datetime(self.pick.choice(YEARS), 6, 1, tzinfo=UTC)
        run = [self.event(at + timedelta(minutes=i)) for i in range(self.pick.choice((9, 11, 150)))]
        return _encoded(run)

    def _spoiled(self, until: datetime) -> list[bytes | None]:
        pairs = [(json.dumps(k), json.dumps(v).encode()) for k, v in self.event(until).items()]
        row = self.pick.randrange(len(pairs))
        junk = self.pick.choice((*NUMBERS, b"{}", b"[]", b"null", b'"\\ud800"', b'"\xff"', b'""'))
        pairs[row] = (pairs[row][0], junk)
        return [b"{" + b",".join(k.encode() + b":" + v for k, v in pairs) + b"}"]

    def _garbage(self, until: datetime) -> list[bytes | None]:
        return [self.pick.choice(GARBAGE) for _ in range(self.pick.choice((1, 5)))]

    def _copies(self, until: datetime) -> list[bytes | None]:
        """Of the others' decisions, under its own versions; labels of them, decided elsewhen."""
        chosen = self.pick.sample(self.others.decisions, 3)
        if self.topic == DECISIONS:
            own = {"versions": VERSIONS, "label_requested": False, "traffic": "production"}
            return _encoded([decision | own for decision in chosen])
        year = self.pick.choice((2001, 2025, 2027))
        at = datetime(year, 1, 1, tzinfo=UTC)
        return _encoded([lesson.label(one["decision_id"], at, ready=False) for one in chosen])

    def _array(self, until: datetime) -> list[bytes | None]:
        many = [self.event(until - timedelta(minutes=i)) for i in range(self.pick.choice((2, 300)))]
        return [json.dumps(many).encode()]


LAST_LABELLED = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)


def _encoded(events: Sequence[Event]) -> list[bytes | None]:
    return list(messages(events))


def _renamed(values: Sequence[bytes | None]) -> list[Sent]:
    """Fuzzed messages, whose judge is the hostile one's."""
    return [(None if one is None else one.replace(b"j1", OWN.encode()), -1) for one in values]


# A run


@dataclass(frozen=True)
class Story:
    """What all send, round by round."""

    clock: str
    hostile: Shard
    workers: int
    poll: int
    restart: int | None
    rounds: Sequence[dict[Shard, list[Sent]]]
    reached: Sequence[datetime]
    holes: int


@dataclass(frozen=True)
class Outcome:
    """What has come of it, of the others alone."""

    counts: Counted
    statuses: dict[Shard, ShardStatus]
    watermark: int | None
    slowest: int | None
    wall: int
    kept: Counter[tuple[Any, ...]]


def story(seed: int, clock: str, topic: str, fuzzed: Sequence[bytes | None]) -> Story:
    pick = random.Random(seed)
    history = Histories(seed, pick.randint(25, 40), hours=110)
    hostile = Shard(topic, pick.randrange(2))
    rounds: list[dict[Shard, list[Sent]]] = [{} for _ in range(ROUNDS)]
    reached = [datetime(2026, 1, 1, tzinfo=UTC)] * ROUNDS
    for kind, events in ((DECISIONS, history.decisions), (LABELS, history.labels)):
        order = shuffled(events, pick, 20.0)
        for number in range(ROUNDS):
            part = order[number * len(order) // ROUNDS : (number + 1) * len(order) // ROUNDS]
            for event in part:
                place = int(event["decision_id"].lstrip("noe-d")) % 2
                shard = Shard(kind, 1 - hostile.partition if kind == topic else place)
                rounds[number].setdefault(shard, []).extend((m, -1) for m in messages([event]))
            moments = [datetime.fromisoformat(e["decided_at"]) for e in part]
            reached[number:] = [max([reached[number], *moments])] * (ROUNDS - number)
    sender = Hostile(pick, topic, history)
    for number in range(ROUNDS):
        rounds[number][hostile] = sender.messages(reached[number])
    rounds[pick.randrange(ROUNDS)][hostile] += _renamed(fuzzed)
    return Story(
        clock, hostile, pick.randint(1, 2), pick.choice((3, 50, 5000)),
        pick.choice((None, None, 1, 2)), rounds, reached, pick.choice((0, 0, 1, 7)),
    )  # fmt: skip


OPTIONS: dict[str, Any] = {
    "stream__horizon": "2d",
    "constants": {
        "consumers.ingest.DEAD_LETTER_STOP_SHARE": 1,
        "monitor.composition.ingest.MAX_VERSIONS": 500,
    },
}


def play(told: Story, *, hostile: bool, prune_at: int | None = None) -> Outcome:
    """Run it; ``prune_at``: retention goes by this event time, else by the slowest shard's."""
    options = OPTIONS | {"stream__clock": told.clock}
    with (
        tempfile.TemporaryDirectory() as name,
        Pipeline(Path(name), (2, 2), told.poll, **options) as pipeline,
    ):
        _set_clock(pipeline, told)
        for _ in range(told.workers):
            pipeline.worker()
        for number, sent in enumerate(told.rounds):
            _send(pipeline, told, number, sent, hostile=hostile)
        pipeline.drain()
        for _ in range(60):
            pipeline.step(pipeline.workers[0])
            for other in pipeline.workers[1:]:
                pipeline.step(other, 0.0)
        pipeline.fold()
        pipeline.check_conservation()
        return _outcome(pipeline, told.hostile, prune_at)


def _set_clock(pipeline: Pipeline, told: Story) -> None:
    """The present is where the others begin."""
    if told.clock == "live":
        pipeline.clock.seconds = told.reached[0].timestamp()


def _send(
    pipeline: Pipeline, told: Story, number: int, sent: dict[Shard, list[Sent]], *, hostile: bool
) -> None:
    wall = (told.reached[number] + timedelta(minutes=1)).timestamp()
    if told.clock == "live":
        pipeline.clock.seconds = max(pipeline.clock.seconds, wall)
    for shard, messages_ in sent.items():
        if shard == told.hostile and not hostile:
            continue
        if shard == told.hostile and messages_:  # what ends in holes would never be read to its end
            pipeline.broker.skip(shard, told.holes)
        values, stamps = [m for m, _ in messages_], [at for _, at in messages_]
        pipeline.broker.produce(shard.topic, values, shard.partition, stamps)
    if told.restart == number:
        pipeline.kill(pipeline.workers[0])
        pipeline.worker()
    for _ in range(12):
        for worker in pipeline.workers:
            pipeline.step(worker)


def _is_of_others(versions: str) -> bool:
    """Whether a cell is not of the hostile partition, whose broken names may lose its judge."""
    return versions == OTHER or (
        versions.startswith("judge=") and not versions.startswith(f"judge={OWN}")
    )


def _outcome(pipeline: Pipeline, hostile: Shard, prune_at: int | None) -> Outcome:
    engine, wall = pipeline.engine, pipeline.clock.now()
    counts = {c: row for c, row in pipeline.counts().items() if _is_of_others(c[3])}
    watermark = EvaluatorStore(engine, DECISIONS).deltas.watermark()
    slowest = RecordStore(engine).slowest_event_time()
    statuses = {s.shard: s for s in pipeline.statuses() if s.shard != hostile}
    policy = retention_policy(pipeline.settings)
    retention.apply(engine, policy, prune_at or slowest, wall, confirmed=True)
    return Outcome(counts, statuses, watermark, slowest, wall, _kept(engine))


def _kept(engine: sa.Engine) -> Counter[tuple[Any, ...]]:
    """Rows of the others that retention has left."""
    found: Counter[tuple[Any, ...]] = Counter()
    with engine.connect() as connection:
        for table, row in (("pending", "p.hour, p.id"), ("counts", "p.grain, p.pane, p.cell")):
            query = (
                f"SELECT {row} FROM {table} p JOIN cell c ON c.id = p.cell"
                f" JOIN version v ON v.id = c.version WHERE v.text LIKE 'judge=%'"
                f" AND v.text NOT LIKE 'judge={OWN}%'"
            )
            found.update((table, *one) for one in connection.execute(sa.text(query)))
    return found


def _totals(status: ShardStatus) -> dict[str, Any]:
    """Totals that do not depend on when the shards were read.

    While time is held back a label of no decision waits longer; and which of two labels came first
    depends on which of them had to wait.
    """
    tallies = status.tallies
    unmatched = Counter(tallies.unmatched)
    unmatched["no_decision"] += tallies.waiting
    names = ("messages", "tombstones", "gaps", "events", "duplicates", "thinned", "dead_letters",
             "unkept", "requested", "repeated", "late", "cross_partition")  # fmt: skip
    same = {name: getattr(tallies, name) for name in names}
    return same | {"unmatched": +unmatched, "judged": tallies.counted + tallies.stale}


def check(told: Story) -> None:
    """Both runs, and all that must be the same."""
    found = play(told, hostile=True)
    live = told.clock == "live"
    alone = play(told, hostile=False, prune_at=found.wall - LATENESS if live else None)
    assert found.counts == alone.counts
    assert found.statuses.keys() == alone.statuses.keys()
    for shard, status in found.statuses.items():
        other = alone.statuses[shard]
        assert _totals(status) == _totals(other), shard
        assert status.next_offset == other.next_offset
        _check_newest(status.max_decided_at, other.max_decided_at, found.wall if live else None)
        assert status.holds_back == other.holds_back
        if not live:
            assert status.watermark == other.watermark
        elif status.watermark is not None:  # what is caught up takes over what others have reached
            assert (other.watermark or 0) - READING < status.watermark <= found.wall - LATENESS
    _check_time(found, alone, live=live)


def _check_newest(found: int | None, alone: int | None, wall: int | None) -> None:
    """The same; under ``live`` an event ahead of the wall clock moves a shard as far as that was
    when it was read, and the two runs take different times to read."""
    if wall is None or found is None or alone is None:
        assert found == alone
    else:
        assert abs(found - alone) < READING
        assert found <= wall


def _check_time(found: Outcome, alone: Outcome, *, live: bool) -> None:
    for mark, other in ((found.watermark, alone.watermark), (found.slowest, alone.slowest)):
        if mark is not None:
            assert mark <= (found.wall - LATENESS if live else other or mark)
    assert not alone.kept - found.kept, "more was deleted than without it"


FUZZED = {
    topic: st.lists(hostile_events.messages(topic), max_size=4) for topic in (DECISIONS, LABELS)
}
SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("clock", [pytest.param("live", marks=pytest.mark.full), "history"])
@trying(4)
@given(SEEDS, FUZZED[DECISIONS])
def test_decisions_of_one_partition_harm_no_other(
    clock: str, seed: int, fuzzed: list[bytes | None]
) -> None:
    check(story(seed, clock, DECISIONS, fuzzed))


@pytest.mark.parametrize("clock", ["live", pytest.param("history", marks=pytest.mark.full)])
@trying(4)
@given(SEEDS, FUZZED[LABELS])
def test_labels_of_one_partition_harm_no_other(
    clock: str, seed: int, fuzzed: list[bytes | None]
) -> None:
    check(story(seed, clock, LABELS, fuzzed))


def test_the_stories_have_something_to_delete_and_something_that_is_kept() -> None:
    told = story(1, "history", DECISIONS, [])
    every = play(told, hostile=False, prune_at=1)
    left = play(told, hostile=False)
    assert 0 < left.kept.total() < every.kept.total()
    assert {row[0] for row in every.kept} == {"pending", "counts"}
    assert only_kept(left.counts, {"1h": 0}) == left.counts
    assert left.slowest is not None
    assert left.slowest > 2 * HOUR


def test_hostile_events_are_counted_and_refused(tmp_path: Path) -> None:
    """Or the runs above would show nothing."""
    reasons: Counter[str] = Counter()
    for seed in range(12):
        told = story(seed, "live" if seed % 2 else "history", DECISIONS, [])
        with Pipeline(tmp_path, (2, 2), **(OPTIONS | {"stream__clock": told.clock})) as pipeline:
            _set_clock(pipeline, told)
            pipeline.worker()
            for number, sent in enumerate(told.rounds):
                _send(pipeline, told, number, sent, hostile=True)
            pipeline.drain()
            for status in pipeline.statuses():
                if status.shard == told.hostile:
                    reasons.update(status.tallies.dead_letters)
                    reasons["counted"] += status.tallies.counted
    wanted = {"counted", "future", "too_old", "jump", "malformed_json", "too_early"}
    assert wanted <= set(reasons), reasons

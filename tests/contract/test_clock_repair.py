"""A store whose event time an older version let run away: found, mended, and exact afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import lesson
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from pipeline import DECISIONS, ID_KEY, LABELS, Counted, Pipeline, attributes_in, messages, total
from published_lesson import BOTH
from published_lesson import lesson as published

from consumers.ingest import Ingest
from monitor.cli import cli
from monitor.clock import SystemClock
from monitor.core.publish.snapshot import decode
from monitor.core.time import DAY, HOUR, MINUTE, Grain, pane_of, to_micros
from monitor.errors import RetentionRefusedError, SlicewatchError
from monitor.ports import Shard
from monitor.store import database as db
from monitor.store.evaluator.published_tables import write_published
from monitor.store.schema import (
    cohort,
    counts,
    dead_letter,
    ownership,
    published_rate,
    release_edge,
    release_mark,
    resumption,
    snapshot,
)
from monitor.store.upkeep import clock_repair, retention
from monitor.store.upkeep.clock_repair import Poisoned
from monitor.store.upkeep.retention_guard import RetentionPolicy

pytestmark = pytest.mark.full

NOW = datetime(2026, 6, 10, 15, 20, tzinfo=UTC)
AT = to_micros(NOW)
POISON = to_micros(datetime(2099, 1, 1, tzinfo=UTC))
LATENESS = 10 * MINUTE
D0, D1, L0 = Shard(DECISIONS, 0), Shard(DECISIONS, 1), Shard(LABELS, 0)
MARKS = ("decisions", "labels", "sifted", "looked")
POISONED = {"decisions": (D0,), "labels": (L0,), "all decisions": (D0, D1), "all": (D0, D1, L0)}


class Site:
    """A service that has been live for two days, and all that was ever sent to it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.decisions: list[dict[str, object]] = []
        self.labels: list[dict[str, object]] = []
        self._numbers = 0

    def send(self, first: datetime, end: datetime) -> None:
        """Four decisions an hour on both partitions, each labelled."""
        at, mine, said = first, ([], []), []  # type: ignore[var-annotated]
        while at < end:
            number = self._numbers = self._numbers + 1
            channel = "chat" if number % 3 else "email"
            attributes = {"language_variety": "formal", "channel": channel}
            one = lesson.decision(f"d{number}", at, 0.8, attributes=attributes)
            mine[number % 2].append(one)
            said.append(lesson.label(f"d{number}", at, bool(number % 5)))
            at += timedelta(minutes=15)
        for partition in (0, 1):
            self.pipeline.broker.produce(DECISIONS, messages(mine[partition]), partition)
            self.decisions += mine[partition]
        self.pipeline.broker.produce(LABELS, messages(said))
        self.labels += said

    def live_until(self, end: datetime, first: datetime | None = None) -> None:
        """Let it happen, and be read and evaluated."""
        first = first or self.now
        self.pipeline.clock.seconds = max(self.pipeline.clock.seconds, end.timestamp())
        self.send(first, end - timedelta(minutes=5))
        if not self.pipeline.workers:
            self.pipeline.worker()
        self.settle()
        self.pipeline.fold()

    def settle(self) -> None:
        self.pipeline.drain()
        for _ in range(20):
            if not total(self.pipeline.statuses(), LABELS, "waiting"):
                return
            self.pipeline.flush_again()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.pipeline.clock.seconds, UTC)

    def stop(self) -> None:
        for worker in list(self.pipeline.workers):
            self.pipeline.kill(worker)

    def expected(self) -> Counted:
        rules = oracle.Rules(attributes_in(), ID_KEY.encode())
        return oracle.count(rules, self.decisions, self.labels).counts

    def is_exact(self) -> None:
        self.pipeline.check_conservation()
        self.pipeline.check_counts(self.expected())
        assert total(self.pipeline.statuses(), DECISIONS, "dead_letters") == 0
        assert total(self.pipeline.statuses(), LABELS, "dead_letters") == 0

    def run(self, statement: sa.Executable) -> None:
        with db.writing(self.pipeline.engine) as connection:
            connection.execute(statement)

    def ask(self, query: sa.Select[Any]) -> list[Any]:
        with db.reading(self.pipeline.engine) as connection:
            return list(connection.execute(query).scalars())

    def poison(self, *shards: Shard) -> None:
        """As an older version left it: the clock of these has gone along with one event."""
        for shard in shards:
            self.run(
                sa.update(ownership)
                .where(ownership.c.topic == shard.topic, ownership.c.part == shard.partition)
                .values(max_decided_at=POISON, watermark=POISON - LATENESS)
            )

    def poison_evaluation(self) -> None:
        """And the evaluator has closed what has not come yet."""
        self.run(sa.update(release_mark).where(release_mark.c.name.in_(MARKS)).values(at=POISON))
        edge = release_edge.c
        with db.writing(self.pipeline.engine) as connection:
            families = connection.execute(sa.select(edge.family, edge.labels).distinct()).all()
            for row in families:
                values = {"family": row.family, "labels": row.labels, "at": POISON, "burned": False}
                connection.execute(sa.insert(release_edge).values(values))
            there = {"state": "consumed", "live": True, "consumed_at": AT, "payload": b""}
            for hour in range(3):
                values = {"hour": pane_of(POISON, Grain.HOUR) - hour, **there}
                connection.execute(sa.insert(cohort).values(values))
            body = connection.execute(sa.select(snapshot.c.body).limit(1)).scalar_one()
            values = {"id": 900, "stored_at": AT, "watermark": POISON, "body": body}
            connection.execute(sa.insert(snapshot).values(values))
            write_published(connection, published(*BOTH, at=POISON))

    def find(self) -> Poisoned:
        return clock_repair.find(self.pipeline.engine, self.clock)

    def repair(self) -> Poisoned:
        return clock_repair.repair(self.pipeline.engine, self.clock, LATENESS)

    @property
    def clock(self) -> int:
        return self.pipeline.clock.now()

    def marks(self) -> list[int]:
        return self.ask(sa.select(release_mark.c.at).where(release_mark.c.name.in_(MARKS)))


@pytest.fixture
def url(url: str) -> str:
    """SQLite still to be made, PostgreSQL with nothing in it."""
    return url


@pytest.fixture
def site(tmp_path: Path, url: str) -> Iterator[Site]:
    options = {"store__url": url, "stream__clock": "live"}
    with Pipeline(tmp_path, partitions=(2, 1), **options) as pipeline:  # type: ignore[arg-type]
        pipeline.clock.seconds = NOW.timestamp()
        site = Site(pipeline)
        site.live_until(NOW, NOW - timedelta(days=2))
        site.is_exact()
        yield site


def test_a_healthy_store_has_nothing_to_mend(site: Site) -> None:
    before = rows(site)
    assert not site.find()
    assert not site.repair()
    assert rows(site) == before
    site.live_until(NOW + timedelta(hours=9))
    site.is_exact()


def test_an_empty_store_has_nothing_to_mend(engine: sa.Engine) -> None:
    assert not clock_repair.find(engine, AT)
    assert not clock_repair.repair(engine, AT, LATENESS)


def rows(site: Site) -> list[tuple[Any, ...]]:
    with db.reading(site.pipeline.engine) as connection:
        query = sa.select(ownership).order_by(ownership.c.topic, ownership.c.part)
        found = [tuple(row) for row in connection.execute(query)]
        return found + [tuple(row) for row in connection.execute(sa.text("SELECT * FROM lease"))]


@pytest.mark.parametrize("which", POISONED)
@pytest.mark.parametrize("evaluated", [False, True])
def test_what_comes_after_a_repair_is_exact(site: Site, which: str, evaluated: bool) -> None:
    site.stop()
    site.poison(*POISONED[which])
    if evaluated:
        site.poison_evaluation()
    before = site.pipeline.counts()
    found = site.find()
    assert tuple(one.shard for one in found.shards) == POISONED[which]
    assert {one.stood for one in found.shards} == {POISON}
    assert tuple(found.marks) == (("decisions", "labels") if evaluated else ())
    assert (found.cohorts, found.snapshots) == ((3, 1) if evaluated else (0, 0))
    assert site.repair() == found
    is_mended(site, found)
    assert site.pipeline.counts() == before
    assert not site.find()
    assert not site.repair()

    site.live_until(NOW + timedelta(hours=9), NOW)
    site.is_exact()
    site.live_until(NOW + timedelta(days=3))
    site.is_exact()
    body = site.pipeline.snapshot()
    assert body is not None
    watermark = decode(body).watermark
    assert watermark is not None
    assert 0 <= site.clock - watermark <= HOUR
    assert all(at > AT for at in site.marks()), "the evaluator goes on"
    hours = site.ask(sa.select(cohort.c.hour))
    assert len(hours) == len(set(hours))
    assert not site.find()


def is_mended(site: Site, found: Poisoned) -> None:
    assert site.clock - HOUR <= found.back_to <= site.clock
    for status in site.pipeline.statuses():
        assert status.watermark is not None
        assert status.max_decided_at is not None
        assert status.watermark <= status.max_decided_at <= site.clock
    end = found.back_to + 6 * HOUR
    assert all(at <= end for at in site.marks())
    assert all(at <= end for at in site.ask(sa.select(release_edge.c.at)))
    assert all(hour * HOUR <= end for hour in site.ask(sa.select(cohort.c.hour)))
    assert all(at <= end for at in site.ask(sa.select(snapshot.c.watermark)) if at)
    assert all(str(day) < "2027" for day in site.ask(sa.select(published_rate.c.day)))


def test_a_worker_and_an_evaluator_that_run_meanwhile_go_on(site: Site) -> None:
    """Nobody has to stop anything: whoever had the old clock is fenced."""
    evaluator = site.pipeline.evaluator()
    assert evaluator.cycle()
    (worker,) = site.pipeline.workers
    site.poison(D0, D1, L0)
    site.poison_evaluation()
    site.repair()
    site.pipeline.clock.seconds += 3600
    site.send(NOW, NOW + timedelta(minutes=50))
    site.settle()
    assert site.pipeline.workers == [worker]
    for _ in range(5):
        evaluator.cycle()
    evaluator.release_lease()
    site.pipeline.fold()
    site.is_exact()
    assert not site.find()


def test_a_worker_does_not_write_its_old_clock_after_a_repair(site: Site) -> None:
    (worker,) = site.pipeline.workers
    poison_in_memory(worker, D0)
    site.poison(D0)
    site.repair()
    site.live_until(NOW + timedelta(hours=2), NOW)
    assert not site.find()
    site.is_exact()


def poison_in_memory(worker: Ingest, shard: Shard) -> None:
    worker.states[shard].clock.newest = POISON


def test_events_a_little_ahead_are_no_poison(site: Site) -> None:
    """Less than the settings allow events to be ahead."""
    for ahead, found in ((DAY, False), (DAY + 1, True)):
        site.run(sa.update(ownership).values(max_decided_at=AT + ahead))
        assert bool(clock_repair.find(site.pipeline.engine, AT)) is found
    assert clock_repair.find(site.pipeline.engine, AT, HOUR)


def test_an_event_that_was_counted_in_a_far_future_is_no_newest_hour(site: Site) -> None:
    with db.writing(site.pipeline.engine) as connection:
        one = connection.execute(
            sa.select(counts).where(counts.c.grain == int(Grain.HOUR)).limit(1)
        ).mappings()
        row = dict(one.one()) | {"pane": pane_of(POISON, Grain.HOUR)}
        connection.execute(sa.insert(counts).values(row))
    site.stop()
    site.poison(D0, D1)
    assert site.clock - HOUR <= site.repair().back_to <= site.clock
    assert not site.find()


# Commands


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's clock says what the test says."""
    monkeypatch.setattr(SystemClock, "now", lambda self: AT)


def invoke(site: Site, *arguments: str) -> Result:
    pipeline = site.pipeline
    environment = {
        "SLICEWATCH__STORE__URL": pipeline.settings.store.url,
        "SLICEWATCH__STREAM__CLOCK": "live",
    }
    settings = str(pipeline.path.with_name("settings.toml"))
    runner = CliRunner(env=environment)
    return runner.invoke(cli, ["db", *arguments, "-s", settings], standalone_mode=False)


def said(result: Result, code: int = 0) -> str:
    assert result.exception is None or code, result.exception
    assert result.exit_code == code, result.output
    return result.output


def letters(site: Site, shard: Shard, offsets: Sequence[int], reason: str) -> None:
    for offset in offsets:
        values = {
            **{"topic": shard.topic, "part": shard.partition, "msg_offset": offset, "item": 0},
            **{"reason": reason, "field": "decided_at", "payload_hash": "", "seen_at": AT},
        }
        site.run(sa.insert(dead_letter).values(values))


@pytest.mark.usefixtures("present")
def test_the_command_lists_and_mends(site: Site) -> None:
    assert said(invoke(site, "repair-clock")) == (
        "nothing lies beyond the present (2026-06-10T15:20Z)\n"
    )
    site.stop()
    site.poison(D0, L0)
    site.poison_evaluation()
    letters(site, D0, (41, 40, 42), "too_old")
    letters(site, D0, (7,), "json")
    letters(site, D1, (3,), "too_old")
    before = rows(site)
    listed = said(invoke(site, "repair-clock"), 1)
    assert rows(site) == before, "a look changes nothing"
    again = (
        "decisions/0: 3 events were refused as too old, the first at offset 40. If nothing after it"
        " was counted, read them again: slicewatch db resume-from decisions 0 40"
        ' --clock 2026-06-10T15:20:00Z --force --reason "refused after a wrong clock"'
    )
    found = [
        "decisions/0: event time is at 2099-01-01T00:00Z",
        "labels/0: event time is at 2099-01-01T00:00Z",
        "the evaluator has closed panes of the future (decisions, labels)",
        "3 hours of the future were consumed by the sequential tests",
        "1 published Snapshots are dated in the future",
        again,
    ]
    assert listed.splitlines() == [
        *found,
        "By this machine's clock it is 2026-06-10T15:20Z. If that is right, correct the database:"
        " slicewatch db repair-clock --confirm",
    ]
    mended = said(invoke(site, "repair-clock", "--confirm"))
    assert mended.splitlines() == [*found, "corrected: event time continues from 2026-06-10T15:20Z"]
    for more in ((), ("--confirm",)):
        assert "nothing lies beyond the present" in said(invoke(site, "repair-clock", *more))


@pytest.mark.usefixtures("present")
def test_what_was_refused_is_read_again_by_the_command_that_is_shown(site: Site) -> None:
    """A whole partition was refused since; its offsets go back, and every event counts once."""
    site.stop()
    (high,) = (s.next_offset for s in site.pipeline.statuses() if s.shard == D0)
    assert high is not None
    site.pipeline.clock.seconds += 3600
    site.send(NOW, NOW + timedelta(minutes=50))
    end = site.pipeline.broker.log(D0).high
    assert end > high
    # The older version has refused all of it.
    site.poison(D0)
    letters(site, D0, range(high, end), "too_old")
    with db.writing(site.pipeline.engine) as connection:
        where = sa.and_(ownership.c.topic == DECISIONS, ownership.c.part == 0)
        row = connection.execute(sa.select(ownership.c.tallies).where(where)).scalar_one()
        tallies = decode_tallies(row)
        tallies["messages"] += end - high
        tallies["events"] += end - high
        tallies["dead_letters"] = {"too_old": end - high}
        values = {"next_offset": end, "tallies": encode_tallies(tallies)}
        connection.execute(sa.update(ownership).where(where).values(values))
    mended = said(invoke(site, "repair-clock", "--confirm"))
    (line,) = (one for one in mended.splitlines() if "slicewatch db resume-from" in one)
    words = line.partition("slicewatch db ")[2].replace('"refused after a wrong clock"', "why")
    moved = said(invoke(site, *words.split()))
    assert f"continues at {high}; {end - high} offsets will be counted again" in moved
    site.pipeline.worker()
    site.settle()
    site.pipeline.fold()
    assert total(site.pipeline.statuses(), DECISIONS, "counted") == len(site.decisions)
    site.pipeline.check_counts(site.expected())


def decode_tallies(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return {"messages": 0, "events": 0, **found}


def encode_tallies(tallies: dict[str, Any]) -> str:
    return json.dumps(tallies)


@pytest.mark.usefixtures("present")
def test_a_clock_is_set_with_the_offset(site: Site) -> None:
    site.stop()
    site.poison(D0)
    status = site.pipeline.statuses()[0]
    arguments = ["resume-from", DECISIONS, "0", str(status.next_offset), "--reason", "why"]
    with_clock = [*arguments, "--clock", "2026-06-10T15:00:00Z"]
    assert isinstance(invoke(site, *with_clock).exception, SlicewatchError)
    assert isinstance(
        invoke(site, *arguments, "--clock", "yesterday", "--force").exception, SlicewatchError
    )
    assert site.find()
    said(invoke(site, *with_clock, "--force"))
    after = site.pipeline.statuses()[0]
    assert after.epoch == status.epoch + 1
    assert after.max_decided_at == AT - 20 * MINUTE
    assert after.watermark == AT - 30 * MINUTE
    assert not site.find()
    site.live_until(NOW + timedelta(hours=2), NOW)
    site.is_exact()


@pytest.mark.usefixtures("present")
def test_a_watermark_is_never_set_forward(site: Site) -> None:
    before = site.pipeline.statuses()[0]
    arguments = ["resume-from", DECISIONS, "0", str(before.next_offset), "--reason", "why"]
    said(invoke(site, *arguments, "--clock", "2026-07-01T00:00:00Z", "--force"))
    assert site.pipeline.statuses()[0].watermark == before.watermark


@pytest.mark.usefixtures("present")
def test_a_loss_of_a_poisoned_shard_is_of_the_present(site: Site) -> None:
    """Else it would begin after it ended, and no window would tell of it."""
    site.stop()
    site.poison(D0)
    next_offset = site.pipeline.statuses()[0].next_offset
    assert next_offset is not None
    site.pipeline.broker.produce(DECISIONS, [b"lost"] * 3, 0)
    arguments = ["resume-from", DECISIONS, "0", str(next_offset + 3), "--reason", "why", "--force"]
    said(invoke(site, *arguments, "--clock", "2026-06-10T15:00:00Z"))
    site.live_until(NOW + timedelta(hours=2), NOW)
    (begins,), (ends,) = (
        site.ask(sa.select(column)) for column in (resumption.c.lost_from, resumption.c.lost_until)
    )
    assert begins <= AT
    assert begins <= ends <= site.clock


@pytest.mark.usefixtures("present")
def test_what_is_past_its_time_is_listed_and_deleted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.pipeline.counts()
    listed = said(invoke(site, "prune"))
    assert listed.splitlines()[-1] == "nothing was deleted; to delete it, add --confirm"
    assert "0 of 49 hours of hourly counts, all before" in listed
    assert "refuses" not in listed
    assert said(invoke(site, "prune", "--confirm")).splitlines()[-1] == "deleted"
    assert site.pipeline.counts() == before
    # A clock of this machine that is ten years ahead, and event time that went along.
    late = AT + 3650 * DAY
    monkeypatch.setattr(SystemClock, "now", lambda self: late)
    site.run(sa.update(ownership).values(watermark=late, max_decided_at=late))
    policy = RetentionPolicy(30 * DAY, 395 * DAY, 7 * DAY, 395 * DAY, HOUR)
    with pytest.raises(RetentionRefusedError):
        retention.apply(site.pipeline.engine, policy, late, late)
    listed = said(invoke(site, "prune"))
    hours = next(one for one in listed.splitlines() if "hourly counts" in one)
    assert hours.startswith("49 of 49 hours of hourly counts, all before 2036-")
    assert hours.endswith("(the service refuses it)")
    assert site.pipeline.counts() == before
    assert said(invoke(site, "prune", "--confirm")).splitlines()[-1] == "deleted"
    assert {cell[0] for cell in site.pipeline.counts()} == set()


@pytest.mark.usefixtures("present")
def test_a_loss_ends_at_the_present_at_the_latest(site: Site) -> None:
    """The first event after the gap is dated twenty hours ahead, as far as settings allow."""
    site.stop()
    next_offset = site.pipeline.statuses()[0].next_offset
    assert next_offset is not None
    site.pipeline.broker.produce(DECISIONS, [b"lost"] * 3, 0)
    arguments = ["resume-from", DECISIONS, "0", str(next_offset + 3), "--reason", "why", "--force"]
    said(invoke(site, *arguments))
    attributes = {"language_variety": "formal", "channel": "chat"}
    ahead = lesson.decision("ahead", NOW + timedelta(hours=20), 0.8, attributes=attributes)
    site.pipeline.broker.produce(DECISIONS, messages([ahead]), 0)
    site.pipeline.worker()
    site.pipeline.drain()
    (begins,) = site.ask(sa.select(resumption.c.lost_from))
    (ends,) = site.ask(sa.select(resumption.c.lost_until))
    assert begins <= AT <= ends <= site.clock

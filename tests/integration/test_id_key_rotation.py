"""The id key changes in the middle of a stream, and the old one is destroyed: counts stay exact."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import lesson
import pytest
import sqlalchemy as sa
from histories import Event, Histories, doubled, shuffled, text
from id_keys import KEY, rotated
from migrated import bring_to_head
from pipeline import (
    DECISIONS,
    LABELS,
    SETTINGS,
    Pipeline,
    attributes_in,
    messages,
    settings_with,
    total,
)
from signed_probes import signed

from monitor.composition.store import open_store, retention_policy
from monitor.core.time import HOUR, to_micros
from monitor.errors import OutdatedError, StoreError
from monitor.store.evaluator.records import RecordStore
from monitor.store.id_keys import read_marks
from monitor.store.upkeep import retention

pytestmark = pytest.mark.full

NEW_KEY = "another key for tests, from the day of the rotation on"
DAY = date(2026, 6, 1)  # a midnight inside the histories, which begin two days before
MIDNIGHT = datetime.fromisoformat("2026-06-01T00:00:00+00:00")
OLD, NEW = ("default", KEY, None), ("june", NEW_KEY, "2026-06-01")
BOTH, NEW_ALONE = rotated(SETTINGS, OLD, NEW), rotated(SETTINGS, NEW)
RULES = oracle.Rules(attributes_in(), KEY.encode(), {DAY: NEW_KEY.encode()})


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "slicewatch")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    server: str = request.getfixturevalue("postgres_url")
    bring_to_head(server)
    return server


class Site(Pipeline):
    """A pipeline that can be started again with other keys."""

    def __init__(self, folder: Path, text: str = SETTINGS, url: str | None = None) -> None:
        self.folder = folder
        self.overrides: dict[str, Any] = {
            "stream__clock": "history",
            **({"store__url": url} if url else {}),
        }
        super().__init__(folder, text=text, **self.overrides)

    def restart(self, text: str) -> None:
        """All processes end, and begin with these settings."""
        for worker in [*self.workers]:
            self.kill(worker)
        self.settings = settings_with(self.folder, text, **self.overrides)
        open_store(self.settings, self.clock).dispose()

    def consume(self, decisions: Sequence[Event], labels: Sequence[Event]) -> None:
        self.broker.produce(DECISIONS, messages(decisions))
        self.broker.produce(LABELS, messages(labels))
        if not self.workers:
            self.worker()
        self.drain()

    def clean(self) -> None:
        slowest = RecordStore(self.engine).slowest_event_time()
        policy = retention_policy(self.settings)
        retention.apply(self.engine, policy, slowest, self.clock.now(), confirmed=True)

    def check(self, decisions: Sequence[Event], labels: Sequence[Event]) -> None:
        self.fold()
        self.check_conservation()
        self.check_counts(oracle.count(RULES, decisions, labels).counts)

    @property
    def keys(self) -> list[str]:
        with self.engine.connect() as connection:
            return [mark.id for mark in read_marks(connection)]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]


def at(event: Event) -> datetime:
    return datetime.fromisoformat(event["decided_at"].replace("Z", "+00:00"))


def before_and_after(events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """What arrives until a key can still be announced for the day, and the rest."""
    close = MIDNIGHT - timedelta(minutes=2)
    first = next(i for i, event in enumerate(events) if at(event) >= close)
    return [*events[:first]], [*events[first:]]


def around_midnight(seed: int) -> tuple[list[Event], list[Event]]:
    """Decisions within seconds of the change, whose labels name a time of the other side."""
    pick = random.Random(seed)
    decisions, labels = [], []
    for number in range(24):
        seconds = (number % 12 - 6) * 5 + pick.random()
        own = MIDNIGHT + timedelta(seconds=seconds)
        said = MIDNIGHT - timedelta(seconds=seconds * pick.choice((1, 0.5, -1)))
        key = f"midnight-{number}"
        decisions.append(
            lesson.decision(key, own, 0.8, attributes={"channel": "chat"}, label_requested=True)
        )
        labels.append(lesson.label(key, own, number % 3 > 0, decided_at=text(said)))
        if number % 3 == 0:  # another reviewer, whose tool names the exact time
            later = text(own + timedelta(minutes=30))
            more: dict[str, Any] = {
                "label_id": f"other-{number}",
                "reviewer": "reviewer-2",
                "labelled_at": later,
            }
            labels.append(lesson.label(key, own, number % 2 == 0, **more))
        if number % 4 == 0:  # a correction, which repeats the time exactly
            more = {"label_id": f"second-{number}", "version": 2, "kind": "correction"}
            labels.append(lesson.label(key, own, number % 3 == 0, **more))
    return decisions, labels


@pytest.mark.parametrize("seed", range(2))
def test_counts_are_exact_over_a_rotation(seed: int, tmp_path: Path, url: str | None) -> None:
    """Late decisions and labels of both sides come on both sides of the restart."""
    pick = random.Random(seed)
    history = Histories(seed, 150, hours=60)
    more_decisions, more_labels = around_midnight(seed)
    decisions = shuffled([*history.decisions, *more_decisions], pick)
    labels = shuffled([*history.labels, *more_labels], pick)
    sent = doubled(decisions, pick, 0.1, minutes=59), doubled(labels, pick, 0.1)
    (first, second), (labels_first, labels_second) = map(before_and_after, sent)
    assert all(len(part) > 20 for part in (first, second, labels_first, labels_second))
    assert any(at(event) < MIDNIGHT for event in second)
    with Site(tmp_path, url=url) as site:
        site.consume(first, labels_first)
        site.restart(BOTH)
        assert site.keys == ["default", "june"]
        half = len(second) // 2
        site.consume(second[:half], labels_second)
        site.restart(BOTH)  # what waits and what was recognised goes on by both keys
        site.consume(second[half:], [])
        site.check(decisions, labels)


@pytest.mark.parametrize("labels_first", [False, True])
def test_labels_find_their_decisions_across_the_change(
    labels_first: bool, tmp_path: Path, url: str | None
) -> None:
    decisions, labels = around_midnight(9)
    with Site(tmp_path, BOTH, url) as site:
        if labels_first:
            site.consume([], labels)
            waiting = len(labels)
            assert total(site.statuses(), LABELS, "waiting") == waiting
            site.restart(BOTH)
            site.consume(decisions, [])
        else:
            site.consume(decisions, labels)
        site.check(decisions, labels)
        assert total(site.statuses(), LABELS, "waiting") == 0
        assert site.rows("SELECT COUNT(*) FROM waiting_label") == [(0,)]
        # Whoever answers, all labels of a decision compete for one place.
        assert site.rows("SELECT COUNT(*) FROM label_state") == [(len(decisions),)]


def tick(at: datetime) -> tuple[list[Event], list[Event]]:
    """A probe and its label, to move event time."""
    key = f"tick-{at:%m-%d}"
    probe = lesson.decision(key, at, 0.9, traffic="probe", attributes={"channel": "chat"})
    return [signed(probe)], [lesson.label(key, at, True)]


def test_the_old_key_is_destroyed_after_the_horizon(tmp_path: Path, url: str | None) -> None:
    decisions, labels = around_midnight(4)
    with Site(tmp_path, BOTH, url) as site:
        site.consume(decisions, labels[:10])
        site.consume(*(month := tick(MIDNIGHT + timedelta(days=29))))
        site.clean()
        with pytest.raises(StoreError, match='the key "default" is missing'):
            site.restart(NEW_ALONE)
        site.restart(BOTH)
        site.consume([], labels[10:])  # as long as labels may come, they find their decisions
        assert total(site.statuses(), LABELS, "counted") == len(labels) + len(month[1])
        site.consume(*(later := tick(MIDNIGHT + timedelta(days=33))))
        site.clean()
        site.clean()  # what a label was found for goes with the second round
        site.restart(NEW_ALONE)
        assert site.keys == ["june"]
        hour = to_micros(MIDNIGHT) // HOUR
        for table in ("pending", "label_state", "double_label", "waiting_label"):
            assert site.rows(f"SELECT COUNT(*) FROM {table} WHERE hour < {hour}") == [(0,)]
        more = tick(MIDNIGHT + timedelta(days=34))
        site.consume(*more)
        everything = [[*a, *b, *c, *d] for a, b, c, d in zip(
            (decisions, labels), month, later, more, strict=True)]  # fmt: skip
        site.check(*everything)


def test_a_worker_with_older_settings_ends(tmp_path: Path, url: str | None) -> None:
    with Site(tmp_path, url=url) as site:
        first = tick(MIDNIGHT - timedelta(hours=5))
        site.consume(*first)
        older, old_settings = site.workers[0], site.settings
        site.settings = settings_with(site.folder, BOTH, **site.overrides)
        open_store(site.settings, site.clock).dispose()
        site.broker.produce(DECISIONS, messages(tick(MIDNIGHT)[0]))
        with pytest.raises(OutdatedError, match="settings are older than the store's"):
            site.drain()
        with pytest.raises(OutdatedError, match='lacks the key "june"'):
            open_store(old_settings, site.clock)
        site.kill(older)
        site.consume([], tick(MIDNIGHT)[1])
        both = [[*a, *b] for a, b in zip(first, tick(MIDNIGHT), strict=True)]
        site.check(*both)


def test_the_store_never_holds_an_id_or_a_key(tmp_path: Path) -> None:
    """Nor its write-ahead log, while it is open and after it was closed."""
    history = Histories(7, 120, hours=60)
    names = {event["decision_id"]: f"raw-decision-{i}" for i, event in enumerate(history.decisions)}
    decisions = [
        event | {"decision_id": names[event["decision_id"]]} for event in history.decisions
    ]
    labels = [
        event
        | {"decision_id": names.get(event["decision_id"], "raw-decision-none"),
           "label_id": f"raw-label-{i}", "reviewer": f"raw-reviewer-{i}"}
        for i, event in enumerate(history.labels)
    ]  # fmt: skip
    unreadable = [event | {"route": f"raw-route-{i}"} for i, event in enumerate(decisions[:5])]
    decisions = [event | {"note": f"raw-note-{i}"} for i, event in enumerate(decisions)]
    hidden = [b"raw-"]
    for key in (KEY, NEW_KEY):
        hidden += [key.encode(), key.encode().hex().encode()]

    def holds() -> list[bytes]:
        files = [file.read_bytes() for file in tmp_path.glob("store.db*")]
        return [one for one in hidden if any(one in content for content in files)]

    with Site(tmp_path, BOTH) as site:
        site.consume([*decisions, *unreadable], labels)
        site.fold()
        assert total(site.statuses(), DECISIONS, "counted") == len(decisions)
        assert (tmp_path / "store.db-wal").stat().st_size > 0
        assert site.rows("SELECT COUNT(*) FROM dead_letter") == [(len(unreadable),)]
        assert holds() == []
        site.broker.produce(LABELS, messages(labels[:1]))
        site.drain()
    assert holds() == []
    hidden.append(b"channel=chat")  # the search itself finds what is there
    assert holds() == [b"channel=chat"]

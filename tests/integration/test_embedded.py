"""The main job without Kafka: events over HTTP and from a folder, killed, and moved to Kafka."""

from __future__ import annotations

import csv
import gzip
import io
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.error import HTTPError

import pytest
from brokers import Broker
from browser import browser, page, violations
from click.testing import CliRunner
from running import Running

from consumers.sources.event_log import EventLog
from monitor.cli import cli
from monitor.records import Shard
from monitor.settings import load
from monitor.store import database
from monitor.store.shard_rows import read_statuses
from monitor.watchdog import Watchdog

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
FLAGS = ("run", "--embedded", "--settings", str(SETTINGS))
NOW = datetime.now(UTC)
BATCH = 20


def decision(number: int, ago: timedelta = timedelta()) -> dict[str, Any]:
    return {
        "decision_id": f"d-{number}",
        "decided_at": (NOW - ago).isoformat(),
        "route": "auto_serve",
        "evidence_passed": True,
        "attributes": {"channel": "chat", "language_variety": "formal"},
        "audit_p": 1.0,
        "label_requested": True,
    }


def label(number: int, ago: timedelta = timedelta()) -> dict[str, Any]:
    return {
        "label_id": f"l-{number}",
        "decision_id": f"d-{number}",
        "decided_at": (NOW - ago).isoformat(),
        "version": 1,
        "ready": True,
        "kind": "initial",
        "reason": "audit",
        "reviewer": "h-7",
        "labelled_at": (NOW - ago / 2).isoformat(),
    }


def rows(*events: dict[str, Any]) -> bytes:
    """Return decisions as CSV with a row of names, and in each row a cell of two lines."""
    text = io.StringIO()
    flat = [{**event, "note": "two\nlines", **event["attributes"]} for event in events]
    names = ["note", *(name for name in events[0] if name != "attributes")]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, *(f"attributes.{name}" for name in events[0]["attributes"])])
    names += events[0]["attributes"]
    writer.writerows([event[name] for name in names] for event in flat)
    return text.getvalue().encode()


def lines(*events: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


class Site:
    """An embedded run in its folder."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.url = f"sqlite:///{folder / 'site.db'}"
        self.inbox = folder / "site-events" / "inbox"
        self.environment = {"SLICEWATCH__STORE__URL": self.url, **environment}
        self.service = Running(folder, FLAGS, self.environment)
        self.await_start()

    def await_start(self) -> None:
        self.service.until(lambda: self.service.get("/readyz")[0] == 200, "a start")

    def post(self, *events: dict[str, Any]) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.service.port}/v1/events",
            lines(*events).encode(),
            {"Content-Type": "application/x-ndjson"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["written"] == len(events)

    def refuses(self, reason: str, event: dict[str, Any]) -> bool:
        try:
            self.post(event)
        except HTTPError as error:
            return f'"reason":"{reason}"' in error.read().decode()
        return False

    def drop(self, name: str, *events: dict[str, Any]) -> None:
        (self.inbox / name).write_text(lines(*events))

    def await_counts(self, decisions: int, labels: int, topics: str = "") -> None:
        expected = decisions, labels
        self.service.until(lambda: counted(self.url, topics) == expected, f"{expected} events")


def counted(url: str, topics: str = "") -> tuple[int, int]:
    """Number of decisions and of labels that were counted, of topics with this prefix."""
    engine = database.create_engine(url)
    try:
        statuses = read_statuses(engine)
    finally:
        engine.dispose()
    names = (f"{topics}-d", f"{topics}-l") if topics else ("decisions", "labels")
    numbers = [
        sum(status.tallies.counted for status in statuses if status.shard.topic == name)
        for name in names
    ]
    return numbers[0], numbers[1]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with site.service:
        yield site


OVERDUE = "The review of contract ten-pairs is overdue by "


@pytest.fixture(scope="module")
def overdue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A run whose contract was to be reviewed years ago."""
    effective = {"SLICEWATCH__USE_CASE__0__CONTRACT__EFFECTIVE": "2020-01-01"}
    site = Site(tmp_path_factory.mktemp("overdue"), **effective)
    with site.service as service:
        site.post(decision(1))
        service.until(lambda: OVERDUE in service.get("/")[1], "the condition")
        yield service


def test_an_overdue_review_is_a_condition_on_the_page(overdue: Running) -> None:
    answer = json.loads(overdue.get("/api/v1/snapshot")[1])["conditions"]
    (review,) = (told for told in answer if told["condition"] == "SlicewatchReviewOverdue")
    assert review["sentence"].startswith(OVERDUE)
    assert f'<a href="{review["runbook"]}">' in overdue.get("/")[1]
    assert overdue.get(review["runbook"])[0] == 200


def test_a_list_of_conditions_is_accessible(overdue: Running) -> None:
    with browser() as chromium, page(chromium, script=True) as shown:
        shown.goto(f"http://127.0.0.1:{overdue.port}/#conditions")
        assert OVERDUE in shown.inner_text("main")
        assert violations(shown) == []


def test_a_log_of_past_days_shows_its_tables_at_once(site: Site) -> None:
    days = [timedelta(days=3 - n / 100) for n in range(300)]
    site.drop("decisions.jsonl", *(decision(n, ago) for n, ago in enumerate(days)))
    site.drop("labels.jsonl", *(label(n, ago) for n, ago in enumerate(days)))
    site.await_counts(300, 300)
    site.service.until(lambda: "Decisions are complete to" in site.service.get("/")[1], "tables")
    assert "embedded, for one machine" in site.service.log.read_text()
    too_old = decision(300, timedelta(days=34))
    site.service.until(lambda: site.refuses("too_old", too_old), "the time that was reached")


def test_what_was_acknowledged_is_counted_once_however_often_it_is_killed(site: Site) -> None:
    acknowledged, sent = set[int](), 0

    def post_until_killed() -> None:
        nonlocal sent
        while True:
            numbers = range(sent, sent + BATCH)
            try:
                site.post(*map(decision, numbers), *map(label, numbers))
            except (OSError, HTTPException):  # an answer can break off at any byte
                return
            acknowledged.update(numbers)
            sent += BATCH

    def grow_until_killed(table: bytes) -> None:
        """Write a table in pieces that end anywhere, and its other half after the kill."""
        for start in range(0, len(table) // 2, 997):
            with (site.inbox / "grows.csv").open("ab") as file:
                file.write(table[start : start + 997])
            time.sleep(0.1)
        with (site.inbox / "grows.csv").open("ab") as file:
            file.write(table[start + 997 :])

    for turn in range(3):
        table = rows(*(decision(10**6 + 100 * turn + n) for n in range(100)))
        table = b"\xef\xbb\xbf" * (not turn) + table
        (site.inbox / f"{turn}.csv.gz").write_bytes(
            gzip.compress(rows(*(decision(10**7 + 100 * turn + n) for n in range(100))))
        )
        writer = threading.Thread(target=grow_until_killed, args=(table,))
        writer.start()
        site.drop(f"{turn}.jsonl", *(decision(n) for n in range(-100 * turn - 100, -100 * turn)))
        router = threading.Thread(target=post_until_killed)
        router.start()
        router.join(timeout=1.5)
        site.service.kill()
        router.join()
        writer.join()
        site.service.restart()
        site.await_start()
    # The batch in flight is sent again, as a router does: its copies are recognised.
    numbers = range(sent, sent + BATCH)
    site.post(*map(decision, numbers), *map(label, numbers))
    total = len(acknowledged) + BATCH
    assert total > 3 * BATCH
    site.await_counts(total + 900, total)
    site.service.kill()
    folder = site.inbox.parent
    log = EventLog(folder / "log.db", {}, lambda: 0)
    values = log.read(Shard("decisions", 0), 0, 10**6).values
    log.close()
    ids = [json.loads(value or b"")["decision_id"] for value in values]
    for first in (10**6, 10**7):
        expected = [f"d-{first + n}" for n in range(300)]
        assert [key for key in ids if key in set(expected)] == expected


def test_the_second_of_two_starts_says_why_it_ends(site: Site, tmp_path: Path) -> None:
    second = Running(tmp_path, FLAGS, site.environment)
    assert second.process.wait(timeout=120) == 2
    assert "is open in another process: stop that slicewatch" in second.log.read_text()
    site.post(decision(1))
    site.await_counts(1, 0)


@pytest.mark.full
def test_moves_to_kafka_with_everything(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    topics = {
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": f"{topic_name}-d",
        "SLICEWATCH__STREAM__LABELS_TOPIC": f"{topic_name}-l",
    }
    site = Site(tmp_path, **topics)
    with site.service:
        site.post(*map(decision, range(50)), *map(label, range(50)))
        site.drop("more.jsonl", decision(50), {"decision_id": "no decision"})
        site.await_counts(51, 50, topic_name)
    moved = {
        **site.environment,
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "SLICEWATCH__STREAM__GROUP_ID": topic_name,
    }
    checked = run_cli(moved, "check", "--connect", "--create-topics")
    assert f"ok: topic {topic_name}-d was created" in checked
    sent = "{} messages were sent to topic {}-d\n{} messages were sent to topic {}-l\n"
    said = run_cli(moved, "db", "send-log")
    assert said.startswith(sent.format(52, topic_name, 50, topic_name))
    again = run_cli(moved, "db", "send-log")
    assert again.startswith(sent.format(0, topic_name, 0, topic_name))
    moved["SLICEWATCH__STORE__URL"] = url = f"sqlite:///{tmp_path / 'kafka.db'}"
    arguments = ("run", "--settings", str(SETTINGS))
    with Running(tmp_path, arguments, moved) as service:
        service.until(lambda: service.get("/readyz")[0] == 200, "a start")
        service.until(lambda: counted(url, topic_name) == (51, 50), "all events from Kafka")


def run_cli(environment: dict[str, str], *words: str) -> str:
    result = CliRunner(env=environment).invoke(cli, [*words, "--settings", str(SETTINGS)])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_end_of_a_silent_topic_is_asked_of_the_log_and_not_of_a_broker() -> None:
    environment = {"SLICEWATCH__STREAM__CLIENT": "embedded"}
    shard = Shard("decisions", 0)
    ingest = Mock()
    ingest.health.unknown, ingest.health.access_error = (shard,), None
    ingest.source.high_water.return_value = 7
    clock = Mock(monotonic=Mock(return_value=0.0))
    metrics = Mock()
    watchdog = Watchdog(load(SETTINGS, environment), ingest, metrics, clock)
    assert metrics.set_consumer_state.call_count == 1, "a scrape before the first look has a state"
    watchdog.look()
    ingest.set_end_offsets.assert_called_once_with({shard: 7})

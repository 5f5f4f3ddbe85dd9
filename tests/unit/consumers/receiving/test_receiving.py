"""Events over HTTP: who may send them, what is written, what is refused and how it is said."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import served
from hostile_events import SECRET, events
from hypothesis import given
from served import StillClock, Switches, fetch, small_exporter

from alerts.http import HttpConfig, PortViews, Servers
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from consumers.producing import AuditSampler, Producer, http
from consumers.receiving import PATH, EventJudge, EventReceiver
from consumers.receiving.batches import MAX_EVENT
from consumers.sources.event_log import EventLog
from monitor.composition.ingest import checking_codecs
from monitor.composition.servers import build_receiver
from monitor.core.time import to_micros
from monitor.errors import SourceError
from monitor.records import Record, RecordBatch, Shard
from monitor.settings import load
from monitor.settings.sections import BiasDimensionSettings

EXAMPLE = Path(__file__).parents[4] / "deploy" / "examples" / "judge_router"
SETTINGS = load(EXAMPLE / "slicewatch.toml", {})
NOW = datetime(2026, 6, 2, tzinfo=UTC)
LABELS_BEHIND = timedelta(days=10)
LINES, JSON = "application/x-ndjson", "application/json"
TOKENS = {"grafana": "reader-token", "router": "router-token"}
GUARDED = HttpConfig(port=0, tokens=TOKENS, producers=("router",))
PATIENT = 60.0
BEARER = {"Authorization": "Bearer router-token"}
DECISION: dict[str, Any] = {
    "decision_id": "d-1",
    "decided_at": "2026-06-01T10:00:00Z",
    "route": "auto_serve",
    "evidence_passed": True,
    "attributes": {"channel": "chat"},
    "audit_p": 0.05,
    "label_requested": False,
}
LABEL: dict[str, Any] = {
    "label_id": "l-1",
    "decision_id": 7,
    "decided_at": "2026-06-01T10:00:00Z",
    "version": 1,
    "ready": True,
    "kind": "initial",
    "reason": "audit",
    "reviewer": "h-7",
    "labelled_at": "2026-06-01T12:00:00Z",
}


@dataclass
class Topic:
    """Kafka as far as the receiver knows it; it may be away, or not answer."""

    records: list[Record] = field(default_factory=list)
    away: bool = False
    failing: bool = False
    answers: threading.Event = field(default_factory=threading.Event)

    def write(self, records: Sequence[Record]) -> None:
        if self.away:
            raise SourceError("no broker")
        assert self.answers.wait(60)
        if self.failing:
            raise SourceError("not written")
        self.records += records

    def close(self) -> None:
        pass


@dataclass
class Site:
    """A port with a receiver."""

    topic: Topic
    refused: Counter[tuple[str, str]]
    servers: Servers

    def post(
        self, body: str | bytes, kind: str = LINES, path: str = PATH, **headers: str
    ) -> tuple[int, Any]:
        sent = {"Content-Type": kind} | headers
        text = body if isinstance(body, str) else body.decode()
        status, found, content = fetch(self.servers, path, "POST", text, **sent)
        self.headers = found
        is_json = found.get("content-type") == JSON
        return status, json.loads(content) if is_json else content


def receiver(topic: Topic | EventLog, count: Any) -> EventReceiver:
    judge = EventJudge(
        checking_codecs(SETTINGS),
        lambda: to_micros(NOW),
        lambda are_labels: to_micros(NOW - LABELS_BEHIND * are_labels),
    )
    return EventReceiver(judge, topic, ("decisions", "labels"), count)


@pytest.fixture(params=[GUARDED])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    topic, refused = Topic(), Counter[tuple[str, str]]()
    topic.answers.set()

    def count(found: Mapping[tuple[str, str], int]) -> None:
        refused.update(found)

    made = receiver(topic, count)
    pages = PortViews(events={PATH: made.view})
    servers = Servers(
        request.param, None, small_exporter(), Switches().health(), StillClock(), pages=pages
    )
    servers.start()
    yield Site(topic, refused, servers)
    topic.answers.set()
    servers.stop()


OPEN = pytest.mark.parametrize(
    "site", [HttpConfig(port=0, producers=("anonymous",))], indirect=True
)


def lines(*some: Mapping[str, Any] | str) -> str:
    return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in some)


def test_what_is_good_is_written_as_it_came_and_the_rest_is_named(site: Site) -> None:
    wrong = DECISION | {"audit_p": SECRET}
    body = lines(DECISION, wrong, "", LABEL, f'{{"{SECRET}', DECISION | {"route": None})
    status, answer = site.post(body, **BEARER)
    assert status == 422
    assert (answer["written"], answer["refused"]) == (2, 3)
    assert [(e["line"], e["kind"], e["reason"], e["field"]) for e in answer["events"]] == [
        (2, "decision", "wrong_type", "audit_p"),
        (5, "decision", "malformed_json", ""),
        (6, "decision", "missing_field", "route"),
    ]
    expected = "audit_p is of the wrong kind; expected a number above 0 and up to 1"
    assert answer["events"][0]["message"] == expected
    assert SECRET not in json.dumps(answer)
    assert site.topic.records == [
        ("decisions", b"d-1", json.dumps(DECISION).encode()),
        ("labels", b"7", json.dumps(LABEL).encode()),
    ]
    assert site.refused == {
        ("wrong_type", "audit_p"): 1,
        ("malformed_json", ""): 1,
        ("missing_field", "route"): 1,
    }


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps([DECISION, LABEL]), JSON),
        (json.dumps([DECISION, LABEL], indent=2), "application/json; charset=utf-8"),
        (lines(DECISION, LABEL) + "\n", LINES),
    ],
)
def test_a_batch_is_an_array_or_lines(body: str, kind: str, site: Site) -> None:
    status, answer = site.post(body, kind, **BEARER)
    assert (status, answer) == (200, {"written": 2, "refused": 0, "events": []})
    assert [one.topic for one in site.topic.records] == ["decisions", "labels"]


def test_a_single_event_may_be_sent_alone_and_an_empty_batch_is_nothing(site: Site) -> None:
    assert site.post(json.dumps(DECISION, indent=2), JSON, **BEARER)[0] == 200
    assert site.post("[]", JSON, **BEARER) == (200, {"written": 0, "refused": 0, "events": []})
    assert len(site.topic.records) == 1


def test_an_array_within_a_batch_is_no_event(site: Site) -> None:
    _, answer = site.post(lines(json.dumps([DECISION])), **BEARER)
    assert (answer["written"], answer["events"][0]["reason"]) == (0, "wrong_type")
    _, answer = site.post(json.dumps([DECISION, [LABEL]]), JSON, **BEARER)
    assert (answer["written"], answer["events"][0]["line"]) == (1, 2)
    _, answer = site.post("[" + json.dumps(DECISION), JSON, **BEARER)
    assert (answer["written"], answer["events"][0]["reason"]) == (0, "malformed_json")


def test_times_that_the_service_would_not_believe_are_refused(site: Site) -> None:
    """The horizon is counted from what all partitions of the event's kind have reached."""
    horizon = timedelta(microseconds=SETTINGS.stream.horizon)
    hour = timedelta(hours=1)
    events = [
        event | {"decided_at": at.isoformat()}
        for event, at in (
            (DECISION, NOW + timedelta(minutes=6)),
            (LABEL, datetime(1999, 1, 1, tzinfo=UTC)),
            (DECISION, NOW + timedelta(minutes=4)),
            (DECISION, NOW - horizon - hour),
            (DECISION, NOW - horizon + hour),
            (LABEL, NOW - horizon - hour),
            (LABEL, NOW - horizon - LABELS_BEHIND - hour),
        )
    ]
    status, answer = site.post(lines(*events), **BEARER)
    assert (status, answer["written"]) == (422, 3)
    found = [(one["line"], one["kind"], one["reason"], one["field"]) for one in answer["events"]]
    assert found == [
        (1, "decision", "too_early", "decided_at"),
        (2, "label", "too_old", "decided_at"),
        (4, "decision", "too_old", "decided_at"),
        (7, "label", "too_old", "decided_at"),
    ]


def test_a_bias_result_of_a_declared_dimension_goes_to_the_labels() -> None:
    dimension = BiasDimensionSettings(name="dialect")
    settings = msgspec.structs.replace(SETTINGS, bias_dimension=(dimension,))
    judge = EventJudge(checking_codecs(settings), lambda: to_micros(NOW), lambda _: 0)
    result = {"type": "bias_result", "dimension": "dialect", "measured": "2026-06-01",
              "score": 0.1, "items": 300, "probe_set": "s", "probe_version": "1",
              "model": "m"}  # fmt: skip
    value = json.dumps(result).encode()
    good, refused = judge.judge([(1, value), (2, value.replace(b"dialect", b"other"))])
    assert good == [(1, True, b"", value)]
    assert [(r.line, r.kind, r.field) for r in refused] == [(2, "label", "dimension")]


def test_sizes_are_limited(site: Site) -> None:
    status, answer = site.post(lines(DECISION, DECISION | {"note": "x" * 65_536}), **BEARER)
    assert (status, answer["written"], answer["events"][0]["reason"]) == (422, 1, "too_large")
    assert site.post(lines(*["{}"] * 1_001), **BEARER)[0] == 413
    assert site.post(json.dumps([0] * 300_000), JSON, **BEARER)[0] == 413
    status, answer = site.post(lines(*["{}"] * 1_000), **BEARER)
    assert (status, answer["refused"], len(answer["events"])) == (422, 1_000, 100)
    assert site.post("x" * (1 << 20) + "x", **BEARER)[0] == 413
    assert len(site.topic.records) == 1


@pytest.mark.parametrize(
    ("kind", "headers"), [("text/plain", {}), ("", {}), (LINES, {"Content-Encoding": "gzip"})]
)
def test_other_kinds_are_not_read(kind: str, headers: dict[str, str], site: Site) -> None:
    status, answer = site.post(lines(DECISION), kind, **BEARER, **headers)
    fix = "send application/json or application/x-ndjson as Content-Type, not compressed"
    assert (status, answer) == (415, f"415 {fix}\n".encode())


def test_only_producers_send_and_they_read_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "slicewatch.access"):
        assert site.post(lines(DECISION))[0] == 401
        assert site.post(lines(DECISION), Authorization="Bearer reader-token")[0] == 403
        assert fetch(site.servers, "/metrics", **BEARER)[0] == 403
        assert fetch(site.servers, "/metrics", Authorization="Bearer reader-token")[0] == 200
        assert fetch(site.servers, PATH, **BEARER)[0] == 405
        assert site.topic.records == []
        assert site.post(lines(DECISION), **BEARER)[0] == 200
    logged = [
        (r.__dict__["reader"], r.__dict__["path"], r.__dict__["status"])
        for r in caplog.records
        if r.name == "slicewatch.access"
    ]
    assert ("unknown", PATH, 401) in logged
    assert ("grafana", PATH, 403) in logged
    assert ("router", "/metrics", 403) in logged
    assert ("router", PATH, 200) in logged


def test_a_page_in_a_browser_can_send_nothing(site: Site) -> None:
    assert site.post(lines(DECISION), **BEARER, Origin="http://evil.example")[0] == 403
    assert site.topic.records == []


@OPEN
def test_on_this_machine_s_own_address_anybody_may_send_if_the_settings_say_so(site: Site) -> None:
    assert site.post(lines(DECISION))[0] == 200
    assert fetch(site.servers, "/metrics")[0] == 200
    assert site.post(lines(DECISION), Host="rebound.example")[0] == 403
    port = site.servers.port
    assert site.post(lines(DECISION), Origin=f"http://127.0.0.1:{port}")[0] == 403
    assert len(site.topic.records) == 1


def test_without_producers_there_is_no_such_path() -> None:
    assert build_receiver(SETTINGS, Mock(), Mock()) is None
    servers = Servers(HttpConfig(port=0), None, small_exporter(), Switches().health(), StillClock())
    servers.start()
    try:
        assert fetch(servers, PATH, "POST", "{}", Content_Type=JSON)[0] == 404
    finally:
        servers.stop()


def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log.db", {"decisions": 1, "labels": 1}, lambda: 0)
    log._database.execute("PRAGMA max_page_count = 1")
    answer = receiver(log, Mock()).view(
        Mock(state=Mock(body=lines(*[DECISION] * 100).encode(), kind=LINES))
    )
    log.close()
    assert answer.status_code == 507
    assert answer.body == (
        b"507 Insufficient Storage: the disk is full, and nothing of this batch was kept; free"
        b" space there, and send the batch again\n"
    )


@pytest.mark.parametrize("trouble", ["away", "failing"])
def test_a_broker_that_is_away_is_said_and_nothing_is_counted(trouble: str, site: Site) -> None:
    setattr(site.topic, trouble, True)
    body = lines(DECISION, "{}")
    assert site.post(body, **BEARER)[0] == 503
    assert site.headers["retry-after"] == "5"
    assert site.refused == {}
    setattr(site.topic, trouble, False)
    assert site.post(body, **BEARER)[1]["written"] == 1
    assert site.refused.total() == 1


@pytest.mark.parametrize(
    "site", [replace(GUARDED, turn_seconds=PATIENT, body_seconds=PATIENT)], indirect=True
)
def test_batches_wait_in_a_bounded_number_and_keep_no_scrape_waiting(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve at once eight are taken; four of these are being written, the others wait."""
    monkeypatch.setattr(served, "FAR", PATIENT)
    site.topic.answers.clear()
    with ThreadPoolExecutor(12) as pool:
        body, kind = lines(DECISION), {"Content_Type": LINES}
        posts = [
            pool.submit(fetch, site.servers, PATH, "POST", body, **kind, **BEARER)
            for _ in range(12)
        ]
        for status, headers, _ in (one.result() for one in islice(as_completed(posts), 4)):
            assert (status, headers["retry-after"]) == (429, "1")
        assert fetch(site.servers, "/metrics", Authorization="Bearer reader-token")[0] == 200
        site.topic.answers.set()
        statuses = Counter(one.result()[0] for one in posts)
    assert statuses == {429: 4, 200: 8}
    assert len(site.topic.records) == 8


@given(events("decisions") | events("labels"))
def test_what_is_refused_is_what_the_codec_refuses(event: bytes) -> None:
    """Whatever a producer makes: written only if the worker reads it, refused for its reason."""
    codecs = checking_codecs(SETTINGS)
    value = event.replace(b"\n", b" ")
    far = to_micros(datetime(9999, 1, 1, tzinfo=UTC))
    good, refused = EventJudge(codecs, lambda: far, lambda _: 0).judge([(1, value)])
    assert len(good) + len(refused) == 1
    batch = RecordBatch(Shard("t", 0), [0], [value], [-1])
    letters = DeadLetterBuffer(batch, IdHasher.with_key(b"k"))
    is_label = good[0].is_label if good else refused[0].kind == "label"
    codec = codecs.labels if is_label else codecs.decisions
    read = codec.read(batch, letters)
    if good:
        assert letters.found == []
        assert good[0].value == value
        assert len(read.ts) == 1
    elif len(value) > MAX_EVENT:  # not read at all, so whatever else is wrong is not known
        assert (refused[0].reason, refused[0].field) == ("too_large", "")
    elif value.lstrip()[:1] == b"[":  # never read as one event
        assert (refused[0].reason, refused[0].field) == ("wrong_type", "")
    elif letters.found:
        assert [(one.reason, one.field) for one in letters.found][:1] == [
            (refused[0].reason, refused[0].field)
        ]
    else:  # the clock's business
        assert refused[0].reason in ("too_old", "too_early")
    assert SECRET not in repr(refused)


def test_the_module_sends_over_it(site: Site) -> None:
    address = f"http://127.0.0.1:{site.servers.port}{PATH}"
    producer = Producer(http(address, token="router-token", timeout=PATIENT), AuditSampler(0.5))
    for i in range(1_200):
        producer.decision(DECISION, decision_id=i, audit_p=None, label_requested=None)
    producer.label(LABEL)
    ahead = (NOW + timedelta(hours=1)).isoformat()
    producer.decision(DECISION, decision_id="ahead", decided_at=ahead)
    assert producer.close(PATIENT)
    counts = producer.counts
    assert (counts.sent, counts.failed, counts.dropped) == (1_201, 1, 0)
    keys = [one.key for one in site.topic.records if one.topic == "decisions"]
    assert keys == [str(i).encode() for i in range(1_200)]


def test_the_module_goes_on_when_the_service_is_back(site: Site) -> None:
    site.topic.away = True
    producer = Producer(
        http(f"http://127.0.0.1:{site.servers.port}", token="router-token"), AuditSampler(0.5)
    )
    producer.decision(DECISION)
    assert not producer.close(timeout=0.3)
    assert producer.dropped == 1
    site.topic.away = False
    again = Producer(
        http(f"http://127.0.0.1:{site.servers.port}", token="router-token"), AuditSampler(0.5)
    )
    again.decision(DECISION)
    assert again.close(PATIENT)
    assert again.sent == 1


@pytest.mark.parametrize("url", ["ftp://host/", "slicewatch:9095", "http://"])
def test_an_address_that_is_none_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="url must begin with http:// or https://"):
        http(url)
